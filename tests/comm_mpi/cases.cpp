#include "comm_mpi/cases.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <vector>

#include "base/error.h"
#include "comm/errors.h"
#include "comm/mpi/library.h"
#include "io/file.h"
#include "support/ranks.h"

namespace lockstep::test {

using comm::Communicator;
using comm::Reduction;

namespace {

void reduce_once(Communicator& world) {
  std::vector<float> x(1000, 1.0F);
  world.all_reduce(tensor_of(x), Reduction::sum).wait();
}

// Written by the test, found by the ranks.
std::string shared_file() { return std::getenv("LOCKSTEP_TEST_FILE"); }

}  // namespace

comm::HostPlace the_place;

const std::map<std::string, void (*)(Communicator&)> cases{
    {"user_error",
     [](Communicator& world) {
       reduce_once(world);
       if (world.rank() == 2) throw UserError("no room for the checkpoint", "free some");
       reduce_once(world);
     }},
    {"system_error",
     [](Communicator& world) {
       reduce_once(world);
       if (world.rank() == 1) throw SystemError("the disk is gone");
       reduce_once(world);
     }},
    {"pending",  // the error comes while an operation is under way
     [](Communicator& world) {
       std::vector<float> x(1000, 1.0F);
       const comm::Request request = world.all_reduce(tensor_of(x), Reduction::sum);
       if (world.rank() == 1) throw UserError("no room for the checkpoint", "free some");
       reduce_once(world);
     }},
    {"bug",
     [](Communicator& world) {
       reduce_once(world);
       if (world.rank() == 1) throw BrokenRule("a < b");
       reduce_once(world);
     }},
    {"all_fail",
     [](Communicator& world) {
       reduce_once(world);
       throw UserError("the same bad input", "give good one");
     }},
    {"all_stuck",
     [](Communicator& world) {
       reduce_once(world);
       std::vector<float> x(10);
       world.receive(tensor_of(x), (world.rank() + 1) % world.size()).wait();
     }},
    {"killed",
     [](Communicator& world) {
       std::signal(SIGTERM, SIG_IGN);  // by which mpirun ends the others: they shall have time to say what they found
       reduce_once(world);
       if (world.rank() == 1) std::raise(SIGKILL);
       reduce_once(world);
     }},
    {"busy",  // rank 0 does not look at the others when rank 1 fails
     [](Communicator& world) {
       reduce_once(world);
       if (world.rank() == 1) throw UserError("bad input", "give good one");
       std::this_thread::sleep_for(std::chrono::seconds(100));
     }},
    {"disagree",
     [](Communicator& world) {
       std::vector<float> x(world.rank() == 0 ? 10 : 11);
       world.all_reduce(tensor_of(x), Reduction::sum).wait();
     }},
    {"absent",
     [](Communicator& world) {
       reduce_once(world);
       if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(100));
       reduce_once(world);
     }},
    {"files",
     [](Communicator& world) {
       const std::unique_ptr<io::ByteSource> file = comm::open_mpi_file(shared_file());
       std::vector<std::byte> found(100), expected(100);
       file->read_at(static_cast<std::uint64_t>(world.rank()) * 37, found);
       io::File::open_to_read(shared_file()).read_at(static_cast<std::uint64_t>(world.rank()) * 37, expected);
       if (file->size() != 1000 || found != expected) throw SystemError("MPI-IO reads something else");
     }},
    {"no_file", [](Communicator& world) { comm::open_mpi_file(world.rank() == 1 ? "/no/such/file" : shared_file()); }},
    {"short_file",
     [](Communicator& world) {
       const std::unique_ptr<io::ByteSource> file = comm::open_mpi_file(shared_file());
       std::vector<std::byte> bytes(100);
       file->read_at(world.rank() == 1 ? 950 : 900, bytes);
       world.barrier();
     }},
    {"stopped",  // rank 1 stops while rank 0 waits for it as long as it computes
     [](Communicator& world) {
       reduce_once(world);
       if (world.rank() == 1) std::raise(SIGSTOP);
       std::vector<float> x(10);
       comm::Request message = world.rank() == 0 ? world.receive(tensor_of(x), 1) : comm::Request();
       if (world.rank() == 0) comm::wait_any(std::vector<comm::Request*>{&message});
     }},
    {"computing",  // for longer than comm.timeout
     [](Communicator& world) {
       reduce_once(world);
       std::vector<float> x(10);
       if (world.rank() == 1) {
         std::this_thread::sleep_for(std::chrono::seconds(5));
         world.send(tensor_of(x), 0).wait();
       } else if (world.rank() == 0) {
         comm::Request message = world.receive(tensor_of(x), 1);
         comm::wait_any(std::vector<comm::Request*>{&message});
       }
     }},
    {"stopped_launcher",  // it goes on when rank 1 has ended, or after 30 s
     [](Communicator& world) {
       reduce_once(world);
       if (world.rank() != 1) return std::this_thread::sleep_for(std::chrono::seconds(100));
       const std::string self = std::to_string(getpid()), launcher = std::to_string(getppid());
       const std::string watch = "for turn in $(seq 300); do sleep 0.1; grep -q '^State:.Z' /proc/" + self +
                                 "/status && echo 'rank 1 has left' && break; done; kill -CONT " + launcher;
       if (std::system(("(" + watch + ") & kill -STOP " + launcher).c_str()) != 0) throw SystemError("no shell");
       throw UserError("bad input", "give good one");
     }},
    {"bound",  // each to a core of its own
     [](Communicator& world) {
       reduce_once(world);
       if (the_place.rank != world.rank() % the_place.ranks || the_place.cores.ranks != 1) throw SystemError("elsewhere");
       fmt::print(stderr, "{} on its host\n", the_place.ranks);
     }},
    {"late", [](Communicator& world) { reduce_once(world); }},
    {"no_memory", [](Communicator& world) { const Memory memory = world.window(host_memory()).allocate(std::size_t{1} << 50); }},
};

const std::set<std::string> cases_that_wait{"absent", "all_stuck", "late", "stopped", "computing"};

}  // namespace lockstep::test
