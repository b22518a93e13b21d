#include "emulation/tensor_product.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace lockstep::emulation {
namespace {

float half_of(std::uint32_t pair, int which) { return std::bit_cast<float>(which == 0 ? pair << 16 : pair & 0xffff0000U); }

// The matrices of a warp, gathered from its lanes as the PTX manual says ("Matrix fragments for mma.m16n8k16"). Lane l holds
// these elements, with g = l / 4 and t = l % 4:
// - a: columns `2 t` and `2 t + 1` of rows g and `g + 8` (registers 0 and 1), and 8 columns further (registers 2 and 3)
// - b: rows `2 t` and `2 t + 1` of column g (register 0), and 8 rows further (register 1)
// - d: columns `2 t` and `2 t + 1` of row g (numbers 0 and 1) and of row g + 8 (numbers 2 and 3)
struct Matrices {
  float a[16][16], b[16][8];
};

struct Term {
  double value;
  int exponent;  // of a product: the sum of its factors', as if their product were below 2
};

int exponent_of(float x) { return x == 0 ? -300 : std::ilogb(x); }

double cut_off(double x, double unit) { return std::trunc(x / unit) * unit; }

float towards_zero(double x) {
  const auto nearest = static_cast<float>(x);
  return std::abs(static_cast<double>(nearest)) > std::abs(x) ? std::nextafter(nearest, 0.0F) : nearest;
}

// A sum of products, as A100 was measured to add eight (Fasi et al. 2021, Khattak and Mikaitis 2025). The products are exact.
// Significands of all terms are aligned to the largest. What lies further than `bits` bits below a float's 24 is cut off. The
// result is cut off to a float.
template <std::size_t count>
float add_products(float sum, const Term (&terms)[count], int bits = 1) {
  int largest = exponent_of(sum);
  for (const Term& term : terms) largest = std::max(largest, term.exponent);
  const double unit = std::ldexp(1.0, largest - 23 - bits);
  double total = cut_off(static_cast<double>(sum), unit);
  for (const Term& term : terms) total += cut_off(term.value, unit);
  return towards_zero(total);
}

void gather(const Lane* lanes, Matrices& m) {
  for (int lane = 0; lane < 32; ++lane) {
    Fragments f;
    copy_unseen(&f, lanes[lane].given, sizeof f);
    const int g = lane / 4, t = lane % 4;
    for (int half = 0; half < 2; ++half) {
      for (int r = 0; r < 4; ++r) m.a[g + r % 2 * 8][2 * t + half + r / 2 * 8] = half_of(f.a[r], half);
      for (int r = 0; r < 2; ++r) m.b[2 * t + half + r * 8][g] = half_of(f.b[r], half);
    }
  }
}

}  // namespace

float add_sixteen(float sum, const float (&a)[16], const float (&b)[16]) {
  Term terms[16];
  for (int k = 0; k < 16; ++k) {
    terms[k] = {static_cast<double>(a[k]) * static_cast<double>(b[k]), exponent_of(a[k]) + exponent_of(b[k])};
  }
  return add_products(sum, terms, 2);
}

void multiply_fragments(Lane* lanes, unsigned /*mask*/) {
  Matrices m;
  gather(lanes, m);
  for (int lane = 0; lane < 32; ++lane) {
    Fragments f;
    copy_unseen(&f, lanes[lane].given, sizeof f);
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; ++i) {
      const int row = g + i / 2 * 8, column = 2 * t + i % 2;
      for (int first = 0; first < 16; first += 8) {
        Term terms[8];
        for (int k = 0; k < 8; ++k) {
          const float a = m.a[row][first + k], b = m.b[first + k][column];
          terms[k] = {static_cast<double>(a) * static_cast<double>(b), exponent_of(a) + exponent_of(b)};
        }
        f.d[i] = add_products(f.d[i], terms);
      }
    }
    copy_unseen(lanes[lane].taken, f.d, sizeof f.d);
  }
}

namespace {

void deliver_rows(Lane* lanes, unsigned /*mask*/) {
  Rows rows;
  for (int i = 0; i < 32; ++i) copy_unseen(&rows.of[i], lanes[i].given, sizeof(void*));
  for (int i = 0; i < 32; ++i) copy_unseen(lanes[i].taken, &rows, sizeof rows);
}

}  // namespace

const Rows& rows_of_warp(const void* row, Place at) {
  if (std::bit_cast<std::uintptr_t>(row) % 16 != 0) fail("ldmatrix needs rows aligned to 16 bytes", at);
  return *static_cast<const Rows*>(meet(~0U, &row, sizeof row, deliver_rows, at));
}

}  // namespace lockstep::emulation
