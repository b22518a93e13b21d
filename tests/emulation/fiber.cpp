#include "fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>
#include <utility>

#include "emulation/emulation.h"

// Functions of ThreadSanitizer's runtime; null where it is not linked.
extern "C" {
[[gnu::weak]] void* __tsan_get_current_fiber();
[[gnu::weak]] void* __tsan_create_fiber(unsigned flags);
[[gnu::weak]] void __tsan_destroy_fiber(void* fiber);
[[gnu::weak]] void __tsan_switch_to_fiber(void* fiber, unsigned flags);
[[gnu::weak]] void __tsan_acquire(void* mark);
[[gnu::weak]] void __tsan_release(void* mark);
[[gnu::weak]] void __tsan_java_alloc(std::uintptr_t data, std::uintptr_t bytes);
[[gnu::weak]] void __tsan_java_free(std::uintptr_t data, std::uintptr_t bytes);

void lockstep_emulation_switch(void** save, void* load);
}

// The registers that a callee keeps go onto the stack, which is then another one. The lines tell debuggers nothing of it.
asm(R"(
  .text
  .globl lockstep_emulation_switch
  .type lockstep_emulation_switch, @function
lockstep_emulation_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size lockstep_emulation_switch, .-lockstep_emulation_switch
)");

namespace lockstep::emulation {
namespace {

constexpr std::size_t page = 4096, stack_bytes = std::size_t{128} << 10;
constexpr unsigned without_order = 1;

bool watched() { return __tsan_switch_to_fiber != nullptr; }

}  // namespace

bool races_are_watched() { return watched(); }

Fiber::Fiber(Fiber&& other) noexcept { *this = std::move(other); }

Fiber& Fiber::operator=(Fiber&& other) noexcept {
  std::swap(stack_pointer_, other.stack_pointer_);
  std::swap(stack_, other.stack_);
  std::swap(sanitizer_, other.sanitizer_);
  std::swap(owned_, other.owned_);
  return *this;
}

Fiber::~Fiber() {
  if (owned_ && watched()) __tsan_destroy_fiber(sanitizer_);
  if (stack_ != nullptr) munmap(stack_, page + stack_bytes);
}

Fiber Fiber::with_stack() {
  Fiber fiber = without_stack();
  void* stack = mmap(nullptr, page + stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stack == MAP_FAILED || mprotect(stack, page, PROT_NONE) != 0) throw std::bad_alloc();
  fiber.stack_ = static_cast<std::byte*>(stack);
  return fiber;
}

Fiber Fiber::without_stack() {
  Fiber fiber;
  fiber.owned_ = true;
  if (watched()) fiber.sanitizer_ = __tsan_create_fiber(0);
  return fiber;
}

void Fiber::begin(void (*entry)()) {
  // At the entry of a function, the stack pointer is 8 below a multiple of 16: a return address stands there, here a null.
  auto** top = reinterpret_cast<void**>(stack_ + page + stack_bytes) - 2;
  *--top = nullptr;
  *--top = reinterpret_cast<void*>(entry);
  for (int kept = 0; kept < 6; ++kept) *--top = nullptr;
  stack_pointer_ = top;
}

void Fiber::jump(Fiber& from, Fiber& to) {
  if (watched()) __tsan_switch_to_fiber(to.sanitizer_, without_order);
  lockstep_emulation_switch(&from.stack_pointer_, to.stack_pointer_);
}

void Fiber::adopt() {
  if (watched()) sanitizer_ = __tsan_get_current_fiber();
}

bool Fiber::guards(const std::byte* address) const { return stack_ != nullptr && address >= stack_ && address < stack_ + page; }

AsFiber::AsFiber(const Fiber& fiber) {
  if (!watched()) return;
  before_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(fiber.sanitizer_, without_order);
}
AsFiber::~AsFiber() {
  if (watched()) __tsan_switch_to_fiber(before_, without_order);
}

void release(const void* mark) {
  if (watched()) __tsan_release(const_cast<void*>(mark));
}
void acquire(const void* mark) {
  if (watched()) __tsan_acquire(const_cast<void*>(mark));
}
void forget(void* data, std::size_t bytes) {
  const auto start = reinterpret_cast<std::uintptr_t>(data);
  if (!watched() || bytes == 0) return;
  __tsan_java_alloc(start, bytes);
  __tsan_java_free(start, bytes);
}

}  // namespace lockstep::emulation
