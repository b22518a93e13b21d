#include "app/launch/silent_hosts.h"

#include <gtest/gtest.h>

#include "app/launch_machine.h"

namespace lockstep::launch {
namespace {

using Hosts = std::set<std::string>;

Hosts silent_of(const Recorded& recorded, const Request& request = {}) {
  std::vector<Problem> problems;
  const Machine machine = recorded.machine();
  const Facts facts = find_facts(machine, request, problems);
  EXPECT_TRUE(problems.empty());
  return silent_hosts(machine, facts);
}

std::vector<std::string> asked(std::vector<std::string> agent, const std::string& host) {
  agent.insert(agent.begin(), {"timeout", "5"});
  agent.insert(agent.end(), {host, "true"});
  return agent;
}

const std::vector<std::string> ssh{"ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5"};

TEST(SilentHosts, AreThoseThatSshDoesNotReach) {
  Recorded box;
  box.files["hosts"] = "box\na\nb\nc\n";
  for (const char* host : {"a", "c"}) box.outputs[asked(ssh, host)] = "";
  box.stuck = {asked(ssh, "b")};
  EXPECT_EQ(silent_of(box, {.per_host = 1, .hostfile = "hosts", .spares = 1}), Hosts{"b"});
  box.outputs.erase(asked(ssh, "c"));
  EXPECT_EQ(silent_of(box, {.per_host = 1, .hostfile = "hosts", .spares = 1}), (Hosts{"b", "c"})) << "a spare is asked too";
}

TEST(SilentHosts, AreAskedByTheAgentThatMpirunUses) {
  Recorded box;
  box.files["hosts"] = "a\nb\n";
  box.variables["OMPI_MCA_plm_rsh_agent"] = "blaunch -x : ssh";
  box.outputs[asked({"blaunch", "-x"}, "a")] = "";
  EXPECT_EQ(silent_of(box, {.per_host = 1, .hostfile = "hosts"}), Hosts{"b"});
}

TEST(SilentHosts, AreNoneWhereNobodyCanBeAsked) {
  Recorded box;
  box.files["hosts"] = "a\nb\n";
  EXPECT_EQ(silent_of(box, {.per_host = 1, .hostfile = "hosts"}), Hosts{});
  EXPECT_EQ(silent_of(polaris()), Hosts{});
  Recorded slurm = perlmutter();
  slurm.stuck = {{"sinfo", "-h", "-N", "-o", "%n %T"}};
  EXPECT_EQ(silent_of(slurm), Hosts{});
}

TEST(SilentHosts, AreThoseThatTheSchedulerHasAsDown) {
  Recorded slurm = perlmutter();
  auto& states = slurm.outputs[{"sinfo", "-h", "-N", "-o", "%n %T"}];
  states = "nid001240 allocated\nnid001241 allocated*\nnid001999 down\n";
  EXPECT_EQ(silent_of(slurm), Hosts{"nid001241"});
  states = "nid001240 down\nnid001241 draining\n";
  EXPECT_EQ(silent_of(slurm), Hosts{"nid001240"});
  Recorded pbs = polaris();
  pbs.outputs[{"pbsnodes", "-l"}] = "x3005c0s13b1n0       state-unknown,down\nx3005c0s13b0n0       offline\n";
  EXPECT_EQ(silent_of(pbs), Hosts{"x3005c0s13b1n0.hsn"});
}

}  // namespace
}  // namespace lockstep::launch
