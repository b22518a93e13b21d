#include <fmt/format.h>

#include <array>

#include "base/error.h"
#include "lab/layouts.h"

namespace lockstep::lab {
namespace {

// A list of words, each with all of the next list.
std::vector<std::string> with_all(const std::vector<std::string>& some, const std::vector<std::string>& others) {
  std::vector<std::string> all;
  for (const std::string& one : some) {
    for (const std::string& other : others) all.push_back(other.empty() ? one : one + "," + other);
  }
  return all;
}

std::vector<std::string> quick() {
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

std::vector<std::string> all() {
  std::vector<std::string> made;
  const auto add = [&](const std::vector<std::string>& some) { made.insert(made.end(), some.begin(), some.end()); };
  const std::vector<std::string> levels{"zero=0", "zero=1", "zero=2", "zero=3"}, cuts{"zero=1", "zero=2", "zero=3"};
  const std::vector<std::string> recomputing{"recompute=selective", "recompute=full", "recompute=every:3"};
  const std::vector<std::string> ways{"overlap=false", "bucket=1", "bucket=100000000"};
  add(with_all({"dp=1"}, recomputing));
  add(with_all({"dp=1"}, ways));
  add(with_all({"dp=2", "dp=2,gas=1", "dp=3", "dp=4,gas=2", "dp=5,gas=1", "dp=8"}, levels));
  add(with_all(with_all({"dp=2", "dp=3"}, {"reduce=microbatch"}), levels));
  add(with_all(with_all({"dp=4", "dp=4,gas=3,reduce=microbatch", "dp=8,ranks_per_host=4"}, {"zero_group=node"}), cuts));
  add(with_all(with_all({"dp=2", "dp=3"}, levels), recomputing));
  add(with_all(with_all({"dp=2"}, levels), ways));
  add(with_all({"dp=3,zero=3", "dp=4,zero=3,zero_group=node"}, {"prefetch=0", "prefetch=3", "reshard=false"}));
  const std::vector<std::string> offloads{"offload=optimizer", "offload=params", "offload=activations",
                                          "offload=optimizer+params+activations"};
  add(with_all({"dp=1", "dp=1,gas=1", "dp=3,zero=3", "tp=2,sequence", "dp=2,zero=3,pp=2,prefetch=2", "dp=2,cp=2,zero=3"},
               offloads));
  add(with_all({"dp=1", "dp=4,zero=3,zero_group=node"}, with_all(recomputing, {offloads.back()})));
  add(with_all({"dp=2,reduce=microbatch", "dp=2,zero=1", "dp=2,zero=2", "pp=2:zb-h1"}, {"offload=optimizer"}));
  add(with_all({"dp=3,zero=3"}, with_all({"prefetch=0", "prefetch=3", "reshard=false"}, recomputing)));
  add(with_all(with_all({"dp=1", "dp=3"}, {"moments=bf16"}), levels));
  const std::vector<std::string> tiles{"tiles=1x2", "tiles=2x1", "tiles=2x3"};
  add(with_all({"dp=1", "dp=2,zero=3", "dp=3,zero=3", "dp=4,zero=3,zero_group=node"}, tiles));
  add(with_all({"dp=1,offload=params", "dp=3,zero=3,offload=params", "dp=2,zero=3,offload=optimizer+params+activations"}, tiles));
  add(with_all(with_all({"dp=2,zero=3"}, recomputing), tiles));
  add(with_all({"dp=2,zero=3"}, with_all({"prefetch=0", "prefetch=3", "reshard=false", "reduce=microbatch"}, tiles)));
  add(with_all({"dp=2,tp=2,zero=3", "dp=2,tp=2,sequence,zero=3", "dp=2,pp=2,zero=3", "dp=2,pp=2:zb-v,zero=3,recompute=full",
                "dp=2,cp=2,zero=3", "dp=2,tp=2,pp=2,sequence,zero=3"},
               tiles));
  const std::vector<std::string> tensor{"tp=2", "tp=3", "tp=4", "tp=6", "tp=2,sequence", "tp=4,sequence", "tp=5,sequence"};
  add(tensor);
  add(with_all(tensor, recomputing));
  add(with_all(with_all({"dp=2", "dp=3"}, {"tp=2", "tp=2,sequence"}), levels));
  add(with_all(with_all({"dp=2"}, {"tp=3", "tp=4,sequence"}), levels));
  add(with_all(with_all({"dp=2,tp=2,sequence"}, {"reduce=microbatch", "overlap=false", "bucket=1"}), levels));
  add(with_all({"dp=4,tp=2,zero_group=node", "dp=4,tp=2,sequence,zero_group=node"}, cuts));
  add(with_all({"dp=2,tp=2,sequence,zero=3"}, {"prefetch=0", "reshard=false", "recompute=selective", "recompute=full"}));
  add({"tp=2,moments=bf16", "dp=2,tp=2,sequence,zero=1,moments=bf16"});
  const std::vector<std::string> schedules{"gpipe", "1f1b", "interleaved", "breadth-first", "zb-h1", "zb-v", "dualpipe-v"};
  std::vector<std::string> pipelines;
  for (const std::string& schedule : schedules) pipelines.push_back("pp=2:" + schedule);
  add(pipelines);
  for (const std::string& schedule : schedules) add({"pp=4:" + schedule + ",gas=8", "pp=3:" + schedule + ",gas=6"});
  add({"pp=8,gas=8", "pp=8:zb-h1,gas=3", "pp=4,split=1+4+2+1", "pp=4:gpipe,gas=1", "pp=2:interleaved,virtual_stages=4"});
  add(with_all(pipelines, recomputing));
  add(with_all(with_all({"dp=2"}, pipelines), levels));
  add(with_all({"dp=2"}, with_all(pipelines, {"reduce=microbatch", "reduce=microbatch,zero=2"})));
  add(with_all({"tp=2", "tp=2,sequence"}, pipelines));
  add(with_all(with_all({"dp=2,tp=2,pp=2", "dp=2,tp=2,sequence,pp=2:zb-h1"}, levels), {"recompute=none", "recompute=full"}));
  add(with_all({"dp=4,pp=2,zero_group=node", "dp=4,pp=2:zb-v,zero_group=node"},
               {"ranks_per_host=2,zero=1", "ranks_per_host=2,zero=3"}));
  add({"pp=2,overlap=false", "dp=2,pp=2,bucket=1,zero=2", "dp=2,pp=4:zb-h1,zero=3,reshard=false", "dp=2,pp=2,moments=bf16"});
  const std::vector<std::string> context{"cp=2",
                                         "cp=3",
                                         "cp=5",
                                         "cp=2,context=ulysses",
                                         "cp=3,context=ulysses",
                                         "cp=2,context=ring",
                                         "cp=3,context=ring",
                                         "cp=4,context=ring",
                                         "cp=4,context=ulysses+ring",
                                         "cp=6,context=ulysses+ring,ranks_per_host=3"};
  add(context);
  add(with_all(context, recomputing));
  add(with_all(with_all({"dp=2"}, {"cp=2", "cp=3,context=ulysses", "cp=3,context=ring"}), levels));
  add(with_all(with_all({"tp=2", "tp=2,sequence"}, {"cp=2", "cp=2,context=ulysses", "cp=2,context=ring"}), {"zero=0", "zero=3"}));
  add(with_all({"dp=2,tp=2,cp=2", "dp=2,tp=2,cp=2,sequence,context=ulysses", "dp=2,tp=2,cp=2,sequence,context=ring"}, cuts));
  add({"dp=4,cp=2,zero_group=node,zero=3", "cp=2,moments=bf16", "cp=2,pp=2", "cp=2,context=ulysses,pp=2:zb-v",
       "cp=2,context=ring,pp=2:zb-v", "tp=2,cp=2,pp=2,sequence,zero=2", "dp=2,cp=2,pp=2:interleaved,zero=3",
       "dp=2,cp=4,context=ulysses+ring,zero=3", "tp=2,cp=4,context=ulysses+ring,pp=2:zb-v,recompute=full"});
  add(with_all(with_all({"dp=2", "dp=2,tp=2,sequence", "dp=2,pp=2:zb-h1", "cp=2", "cp=3,context=ulysses", "cp=3,context=ring",
                         "cp=4,context=ulysses+ring"},
                        {"documents"}),
               {"zero=0", "zero=3", "recompute=full"}));
  add(with_all({"dp=1", "dp=1,gas=8", "dp=2", "dp=4,gas=1", "dp=2,gas=4", "dp=8", "dp=2,gas=1"},
               {"canonical", "zero=2,canonical", "zero=3,recompute=full,canonical"}));
  add(with_all(with_all({"tp=2", "tp=2,sequence", "dp=2,tp=2,sequence", "dp=4,tp=2"}, {"canonical"}),
               {"zero=0", "zero=1", "zero=3", "recompute=full", "documents"}));
  add(with_all({"pp=2", "pp=4:zb-h1", "pp=2:zb-v", "dp=2,pp=2:interleaved", "tp=2,pp=2", "dp=2,tp=2,sequence,pp=2:dualpipe-v"},
               {"canonical", "zero=2,canonical"}));
  add(with_all(
      with_all({"tp=4", "cp=2", "cp=2,context=ulysses", "cp=4", "dp=2,cp=2", "tp=2,cp=2,sequence", "dp=2,cp=4,context=ulysses"},
               {"canonical"}),
      {"zero=0", "zero=2", "zero=3", "recompute=full", "documents"}));
  add(with_all({"cp=2,pp=2", "dp=2,cp=2,pp=2:zb-h1,context=ulysses", "tp=2,cp=2,sequence,pp=2:zb-v"},
               {"canonical", "zero=1,canonical", "documents,canonical"}));
  add(with_all({"dp=1", "dp=2,zero=3", "dp=4,gas=1,zero=3", "cp=2,zero=3"}, {"offload=optimizer+params+activations,canonical"}));
  add({"tp=2,moments=bf16,canonical", "dp=2,overlap=false,canonical", "dp=4,zero=3,zero_group=node,canonical"});
  return made;
}

}  // namespace

std::vector<std::string> layout_list(std::string_view name) {
  ensure(name == "quick" || name == "all", "a list has a name");
  return name == "quick" ? quick() : all();
}

}  // namespace lockstep::lab
