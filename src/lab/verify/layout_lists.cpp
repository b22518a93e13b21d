#include "base/error.h"
#include "lab/layouts.h"

namespace lockstep::lab {
namespace {

using Layouts = std::vector<std::string>;

/// Adds each of `some` with each of `others` and each of `more`.
void add(Layouts& all, const Layouts& some, const Layouts& others = {""}, const Layouts& more = {""}) {
  for (const std::string& one : some) {
    for (const std::string& other : others) {
      for (const std::string& third : more) {
        std::string& layout = all.emplace_back(one);
        for (const std::string* word : {&other, &third}) {
          if (!word->empty()) layout.append(",").append(*word);
        }
      }
    }
  }
}

Layouts quick() {
  return {"dp=1,recompute=selective",
          "dp=1,recompute=every:3",
          "dp=2",
          "dp=2,zero=1",
          "dp=2,zero=2",
          "dp=2,zero=3",
          "dp=2,zero=3,prefetch=2,recompute=full",
          "dp=2,zero=3,reshard=false,overlap=false",
          "dp=3,zero=3,tiles=2x2,recompute=selective",
          "dp=1,offload=params,tiles=2x2",
          "dp=2,reduce=microbatch",
          "dp=2,reduce=microbatch,zero=2",
          "dp=2,ps=1",
          "dp=3,gas=1,zero=3",
          "dp=4,zero=1,zero_group=node",
          "dp=4,zero=3,zero_group=node",
          "dp=2,zero=1,moments=bf16",
          "dp=1,offload=optimizer+params+activations",
          "dp=2,zero=3,offload=optimizer+params+activations,recompute=full",
          "tp=2",
          "tp=4,sequence,recompute=full",
          "dp=2,tp=2,sequence,zero=3",
          "dp=2,tp=3,zero=1",
          "pp=2",
          "pp=4:zb-h1,split=3+2+2+1",
          "pp=2:interleaved,recompute=full",
          "pp=2:dualpipe-v",
          "dp=2,pp=2:zb-v,zero=2",
          "dp=2,tp=2,pp=2,sequence,zero=3",
          "cp=2",
          "cp=3,context=ulysses,recompute=full",
          "dp=2,cp=2,zero=3",
          "tp=2,cp=2,sequence,context=ulysses",
          "tp=2,cp=2,pp=2",
          "cp=3,context=ring",
          "dp=2,tp=2,cp=2,context=ring,sequence,zero=3",
          "cp=2,context=ring,pp=2:zb-v,recompute=full",
          "cp=4,context=ulysses+ring",
          "tp=2,cp=4,context=ulysses+ring,sequence,zero=2",
          "tp=2,sequence,pp=2,documents",
          "cp=2,documents",
          "cp=3,context=ring,zero=1,recompute=full,documents",
          "dp=2,canonical",
          "dp=4,gas=1,zero=3,canonical",
          "tp=2,canonical",
          "dp=2,tp=2,sequence,pp=2:zb-h1,canonical",
          "dp=2,cp=2,canonical",
          "tp=2,cp=2,context=ulysses,zero=3,canonical"};
}

Layouts levels() { return {"zero=0", "zero=1", "zero=2", "zero=3"}; }
Layouts cuts() { return {"zero=1", "zero=2", "zero=3"}; }
Layouts recomputing() { return {"recompute=selective", "recompute=full", "recompute=every:3"}; }
Layouts fetching() { return {"prefetch=0", "prefetch=3", "reshard=false"}; }
constexpr const char* everything = "offload=optimizer+params+activations";

void add_replicas(Layouts& all) {
  const Layouts ways{"overlap=false", "bucket=1", "bucket=100000000"};
  add(all, {"dp=1"}, recomputing());
  add(all, {"dp=1"}, ways);
  add(all, {"dp=2", "dp=2,gas=1", "dp=3", "dp=4,gas=2", "dp=5,gas=1", "dp=8"}, levels());
  add(all, {"dp=2", "dp=3"}, {"reduce=microbatch"}, levels());
  add(all, {"dp=4", "dp=4,gas=3,reduce=microbatch", "dp=8,ranks_per_host=4"}, {"zero_group=node"}, cuts());
  add(all, {"dp=2", "dp=3"}, levels(), recomputing());
  add(all, {"dp=2"}, levels(), ways);
  add(all, {"dp=3,zero=3", "dp=4,zero=3,zero_group=node"}, fetching());
}

void add_offloaded_and_tiled(Layouts& all) {
  const Layouts tiles{"tiles=1x2", "tiles=2x1", "tiles=2x3"};
  add(all, {"dp=1", "dp=1,gas=1", "dp=3,zero=3", "tp=2,sequence", "dp=2,zero=3,pp=2,prefetch=2", "dp=2,cp=2,zero=3"},
      {"offload=optimizer", "offload=params", "offload=activations", everything});
  add(all, {"dp=1", "dp=4,zero=3,zero_group=node"}, recomputing(), {everything});
  add(all, {"dp=2,reduce=microbatch", "dp=2,zero=1", "dp=2,zero=2", "pp=2:zb-h1"}, {"offload=optimizer"});
  add(all, {"dp=3,zero=3"}, fetching(), recomputing());
  add(all, {"dp=1", "dp=3"}, {"moments=bf16"}, levels());
  add(all, {"dp=1", "dp=2,zero=3", "dp=3,zero=3", "dp=4,zero=3,zero_group=node"}, tiles);
  add(all, {"dp=1,offload=params", "dp=3,zero=3,offload=params", "dp=2,zero=3,offload=optimizer+params+activations"}, tiles);
  add(all, {"dp=2,zero=3"}, recomputing(), tiles);
  add(all, {"dp=2,zero=3"}, {"prefetch=0", "prefetch=3", "reshard=false", "reduce=microbatch"}, tiles);
  add(all,
      {"dp=2,tp=2,zero=3", "dp=2,tp=2,sequence,zero=3", "dp=2,pp=2,zero=3", "dp=2,pp=2:zb-v,zero=3,recompute=full",
       "dp=2,cp=2,zero=3", "dp=2,tp=2,pp=2,sequence,zero=3"},
      tiles);
}

void add_tensor(Layouts& all) {
  const Layouts ranks{"tp=2", "tp=3", "tp=4", "tp=6", "tp=2,sequence", "tp=4,sequence", "tp=5,sequence"};
  add(all, ranks);
  add(all, ranks, recomputing());
  add(all, {"dp=2", "dp=3"}, {"tp=2", "tp=2,sequence"}, levels());
  add(all, {"dp=2"}, {"tp=3", "tp=4,sequence"}, levels());
  add(all, {"dp=2,tp=2,sequence"}, {"reduce=microbatch", "overlap=false", "bucket=1"}, levels());
  add(all, {"dp=4,tp=2,zero_group=node", "dp=4,tp=2,sequence,zero_group=node"}, cuts());
  add(all, {"dp=2,tp=2,sequence,zero=3"}, {"prefetch=0", "reshard=false", "recompute=selective", "recompute=full"});
  add(all, {"tp=2,moments=bf16", "dp=2,tp=2,sequence,zero=1,moments=bf16"});
}

void add_pipelines(Layouts& all) {
  Layouts pipelines, deeper;
  for (const std::string schedule : {"gpipe", "1f1b", "interleaved", "breadth-first", "zb-h1", "zb-v", "dualpipe-v"}) {
    pipelines.push_back("pp=2:" + schedule);
    add(deeper, {"pp=4:" + schedule + ",gas=8", "pp=3:" + schedule + ",gas=6"});
  }
  add(all, pipelines);
  add(all, deeper);
  add(all, {"pp=8,gas=8", "pp=8:zb-h1,gas=3", "pp=4,split=1+4+2+1", "pp=4:gpipe,gas=1", "pp=2:interleaved,virtual_stages=4"});
  add(all, pipelines, recomputing());
  add(all, {"dp=2"}, pipelines, levels());
  add(all, {"dp=2"}, pipelines, {"reduce=microbatch", "reduce=microbatch,zero=2"});
  add(all, {"tp=2", "tp=2,sequence"}, pipelines);
  add(all, {"dp=2,tp=2,pp=2", "dp=2,tp=2,sequence,pp=2:zb-h1"}, levels(), {"recompute=none", "recompute=full"});
  add(all, {"dp=4,pp=2,zero_group=node", "dp=4,pp=2:zb-v,zero_group=node"},
      {"ranks_per_host=2,zero=1", "ranks_per_host=2,zero=3"});
  add(all, {"pp=2,overlap=false", "dp=2,pp=2,bucket=1,zero=2", "dp=2,pp=4:zb-h1,zero=3,reshard=false", "dp=2,pp=2,moments=bf16"});
}

void add_context(Layouts& all) {
  const Layouts ranks{"cp=2",
                      "cp=3",
                      "cp=5",
                      "cp=2,context=ulysses",
                      "cp=3,context=ulysses",
                      "cp=2,context=ring",
                      "cp=3,context=ring",
                      "cp=4,context=ring",
                      "cp=4,context=ulysses+ring",
                      "cp=6,context=ulysses+ring,ranks_per_host=3"};
  add(all, ranks);
  add(all, ranks, recomputing());
  add(all, {"dp=2"}, {"cp=2", "cp=3,context=ulysses", "cp=3,context=ring"}, levels());
  add(all, {"tp=2", "tp=2,sequence"}, {"cp=2", "cp=2,context=ulysses", "cp=2,context=ring"}, {"zero=0", "zero=3"});
  add(all, {"dp=2,tp=2,cp=2", "dp=2,tp=2,cp=2,sequence,context=ulysses", "dp=2,tp=2,cp=2,sequence,context=ring"}, cuts());
  add(all, {"dp=4,cp=2,zero_group=node,zero=3", "cp=2,moments=bf16", "cp=2,pp=2", "cp=2,context=ulysses,pp=2:zb-v",
            "cp=2,context=ring,pp=2:zb-v", "tp=2,cp=2,pp=2,sequence,zero=2", "dp=2,cp=2,pp=2:interleaved,zero=3",
            "dp=2,cp=4,context=ulysses+ring,zero=3", "tp=2,cp=4,context=ulysses+ring,pp=2:zb-v,recompute=full"});
  add(all,
      {"dp=2", "dp=2,tp=2,sequence", "dp=2,pp=2:zb-h1", "cp=2", "cp=3,context=ulysses", "cp=3,context=ring",
       "cp=4,context=ulysses+ring"},
      {"documents"}, {"zero=0", "zero=3", "recompute=full"});
}

void add_served(Layouts& all) {
  add(all, {"dp=1", "dp=2", "dp=3", "dp=4,gas=3"}, {"ps=1", "ps=2"});
  add(all, {"dp=3,ps=2"}, {"recompute=full", "overlap=false", "moments=bf16", "documents", "offload=activations"});
}

void add_canonical(Layouts& all) {
  add(all, {"dp=1", "dp=1,gas=8", "dp=2", "dp=4,gas=1", "dp=2,gas=4", "dp=8", "dp=2,gas=1"},
      {"canonical", "zero=2,canonical", "zero=3,recompute=full,canonical"});
  add(all, {"tp=2", "tp=2,sequence", "dp=2,tp=2,sequence", "dp=4,tp=2"}, {"canonical"},
      {"zero=0", "zero=1", "zero=3", "recompute=full", "documents"});
  add(all, {"pp=2", "pp=4:zb-h1", "pp=2:zb-v", "dp=2,pp=2:interleaved", "tp=2,pp=2", "dp=2,tp=2,sequence,pp=2:dualpipe-v"},
      {"canonical", "zero=2,canonical"});
  add(all, {"tp=4", "cp=2", "cp=2,context=ulysses", "cp=4", "dp=2,cp=2", "tp=2,cp=2,sequence", "dp=2,cp=4,context=ulysses"},
      {"canonical"}, {"zero=0", "zero=2", "zero=3", "recompute=full", "documents"});
  add(all, {"cp=2,pp=2", "dp=2,cp=2,pp=2:zb-h1,context=ulysses", "tp=2,cp=2,sequence,pp=2:zb-v"},
      {"canonical", "zero=1,canonical", "documents,canonical"});
  add(all, {"dp=1", "dp=2,zero=3", "dp=4,gas=1,zero=3", "cp=2,zero=3"}, {"offload=optimizer+params+activations,canonical"});
  add(all, {"tp=2,moments=bf16,canonical", "dp=2,overlap=false,canonical", "dp=4,zero=3,zero_group=node,canonical"});
}

Layouts every_method() {
  Layouts all;
  for (const auto part :
       {add_replicas, add_offloaded_and_tiled, add_tensor, add_pipelines, add_context, add_served, add_canonical})
    part(all);
  return all;
}

}  // namespace

std::vector<std::string> layout_list(std::string_view name) {
  ensure(name == "quick" || name == "all", "a list has a name");
  return name == "quick" ? quick() : every_method();
}

}  // namespace lockstep::lab
