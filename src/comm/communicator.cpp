#include "comm/communicator.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "base/error.h"

namespace lockstep::comm {
namespace {

void check_dense(const Tensor& tensor) { ensure(tensor.dense(), "communicated tensors are dense"); }

void check_reducible(DType type, Reduction reduction) {
  const bool real = type == DType::f32 || type == DType::bf16 || type == DType::f64;
  const bool integer = type == DType::i32 || type == DType::i64;
  ensure(real || integer, "f32, bf16, f64, i32 and i64 can be reduced");
  ensure(real || reduction != Reduction::mean, "integers have no mean");
}

void check_rank(int rank, int size) { ensure(rank >= 0 && rank < size, "the root is a rank of the group"); }

std::int64_t check_counts(std::span<const std::int64_t> counts, int size) {
  ensure(counts.size() == static_cast<std::size_t>(size), "one count a rank");
  for (const std::int64_t count : counts) ensure(count >= 0, "no count is negative");
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

void check_whole(const Tensor& whole, const Tensor& part, std::int64_t total, std::int64_t mine) {
  check_dense(whole);
  check_dense(part);
  ensure(whole.dtype == part.dtype, "both sides have one type");
  ensure(whole.elements() == total, "the whole has as many elements as its parts");
  ensure(part.elements() == mine, "a rank's part has as many elements as its count says");
}

}  // namespace

Request Communicator::begin(const Operation& operation) {
  SpanLog* spans = account_->spans;
  const double begun = spans != nullptr ? now_seconds() : 0;
  Request request = issue(operation);
  Exchanged& account = account_->traffic.at(std::exchange(account_->purpose, Purpose::other), operation.kind);
  account.sent += sent_bytes(operation, rank(), size());
  request.count_in(account);
  if (spans != nullptr && spans->on())
    request.tell(*spans, name_of(operation.kind), begun,
                 static_cast<std::int64_t>(std::max(operation.in.bytes(), operation.out.bytes())));
  return request;
}

Request Communicator::all_reduce(const Tensor& x, Reduction reduction) {
  check_dense(x);
  check_reducible(x.dtype, reduction);
  return begin(
      {.kind = Collective::all_reduce, .reduction = reduction, .dtype = x.dtype, .count = x.elements(), .in = x, .out = x});
}

Request Communicator::reduce(const Tensor& x, Reduction reduction, int root) {
  check_dense(x);
  check_reducible(x.dtype, reduction);
  check_rank(root, size());
  return begin({.kind = Collective::reduce,
                .reduction = reduction,
                .dtype = x.dtype,
                .root = root,
                .count = x.elements(),
                .in = x,
                .out = x});
}

Request Communicator::broadcast(const Tensor& x, int root) {
  check_dense(x);
  check_rank(root, size());
  return begin({.kind = Collective::broadcast, .dtype = x.dtype, .root = root, .count = x.elements(), .in = x, .out = x});
}

Request Communicator::all_gather(const Tensor& out, const Tensor& part, std::span<const std::int64_t> counts) {
  const std::int64_t total = check_counts(counts, size());
  check_whole(out, part, total, counts[static_cast<std::size_t>(rank())]);
  return begin({.kind = Collective::all_gather, .dtype = out.dtype, .count = total, .in = part, .out = out, .counts = counts});
}

Request Communicator::reduce_scatter(const Tensor& part, const Tensor& in, std::span<const std::int64_t> counts,
                                     Reduction reduction) {
  const std::int64_t total = check_counts(counts, size());
  check_whole(in, part, total, counts[static_cast<std::size_t>(rank())]);
  check_reducible(in.dtype, reduction);
  return begin({.kind = Collective::reduce_scatter,
                .reduction = reduction,
                .dtype = in.dtype,
                .count = total,
                .in = in,
                .out = part,
                .counts = counts});
}

Request Communicator::gather(const Tensor& out, const Tensor& part, int root) {
  check_rank(root, size());
  check_dense(part);
  if (rank() == root) check_whole(out, part, part.elements() * size(), part.elements());
  return begin({.kind = Collective::gather,
                .dtype = part.dtype,
                .root = root,
                .count = part.elements(),
                .in = part,
                .out = rank() == root ? out : Tensor{}});
}

Request Communicator::scatter(const Tensor& part, const Tensor& in, int root) {
  check_rank(root, size());
  check_dense(part);
  if (rank() == root) check_whole(in, part, part.elements() * size(), part.elements());
  return begin({.kind = Collective::scatter,
                .dtype = part.dtype,
                .root = root,
                .count = part.elements(),
                .in = rank() == root ? in : Tensor{},
                .out = part});
}

Request Communicator::all_to_all(const Tensor& out, const Tensor& in) {
  ensure(in.elements() % size() == 0, "equal pieces: the elements divide by the ranks");
  const std::vector<std::int64_t> counts(static_cast<std::size_t>(size()), in.elements() / size());
  return all_to_all(out, counts, in, counts);
}

Request Communicator::all_to_all(const Tensor& out, std::span<const std::int64_t> out_counts, const Tensor& in,
                                 std::span<const std::int64_t> in_counts) {
  check_dense(out);
  check_dense(in);
  ensure(out.dtype == in.dtype, "both sides have one type");
  ensure(in.elements() == check_counts(in_counts, size()), "`in` has as many elements as its pieces");
  ensure(out.elements() == check_counts(out_counts, size()), "`out` has as many elements as its pieces");
  ensure(out.data != in.data || in.elements() == 0 || out.elements() == 0, "all_to_all has two buffers");
  return begin(
      {.kind = Collective::all_to_all, .dtype = in.dtype, .in = in, .out = out, .counts = in_counts, .out_counts = out_counts});
}

Request Communicator::send(const Tensor& x, int to) {
  check_dense(x);
  check_rank(to, size());
  ensure(to != rank(), "a rank does not send to itself");
  return begin({.kind = Collective::send, .dtype = x.dtype, .root = to, .count = x.elements(), .in = x});
}

Request Communicator::receive(const Tensor& x, int from) {
  check_dense(x);
  check_rank(from, size());
  ensure(from != rank(), "a rank does not receive from itself");
  return begin({.kind = Collective::receive, .dtype = x.dtype, .root = from, .count = x.elements(), .out = x});
}

void Communicator::barrier() { begin({.kind = Collective::barrier}).wait(); }

std::unique_ptr<Communicator> Communicator::split(int colour, int key) {
  const auto n = static_cast<std::size_t>(size());
  std::array<std::int64_t, 2> mine{colour, key};
  std::vector<std::int64_t> all(2 * n);
  const std::vector<std::int64_t> counts(n, 2);
  host().all_gather(view(std::span(all), Shape{std::ssize(all)}), view(std::span<std::int64_t>(mine), Shape{2}), counts).wait();
  std::vector<int> members;
  for (std::size_t r = 0; r < n; ++r) {
    if (all[2 * r] == colour) members.push_back(static_cast<int>(r));
  }
  std::ranges::sort(members, {}, [&](int r) { return std::pair(all[2 * static_cast<std::size_t>(r) + 1], r); });
  std::unique_ptr<Communicator> group = make_group(colour, std::move(members));
  group->account_ = account_;
  return group;
}

}  // namespace lockstep::comm
