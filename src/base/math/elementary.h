#pragma once

// Functions that decide a bit of what a run learns. Those of C libraries differ in their last digits. Here each is a fixed
// sequence of additions, multiplications, divisions and fused multiply-adds in double. So every library, compiler and processor
// has the same bits. All are within 0.75 units in the last place, but for powers far from 1.

namespace lockstep {

/// e^x. 0 below some -746 and infinite above some 709, as rounding has it; NaN of NaN.
double exponential(double x);
/// ln x. NaN of a negative x and of NaN, -infinity of 0.
double logarithm(double x);
/// x^y for finite x >= 0 and y >= 0; 0^0 is 1. Within 0.75 + |y ln x| / 50 units in the last place.
double power(double x, double y);

struct CirclePoint {
  double cosine, sine;
};
/// Within 2^-52, for 0 <= angle < 2^31.
CirclePoint circle_point(double angle);

}  // namespace lockstep
