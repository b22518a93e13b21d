#include "data/chat/jinja/letter_case.h"

#include <algorithm>
#include <cstdint>

#include "base/text/utf8.h"

namespace lockstep::data::jinja {
namespace {

/// Small letters first .. last, each `step` from the one before; the capital of each is `capital` further.
struct Letters {
  char32_t first, last;
  std::uint8_t step;
  std::int16_t capital;
  bool both_ways = true;  ///< or another letter is the small one of the capital
};

constexpr Letters letters[] = {
    {0x61, 0x7A, 1, -32},    {0xB5, 0xB5, 1, 743, false}, {0xE0, 0xF6, 1, -32},           {0xF8, 0xFE, 1, -32},
    {0xFF, 0xFF, 1, 121},    {0x101, 0x12F, 2, -1},       {0x131, 0x131, 1, -232, false}, {0x133, 0x137, 2, -1},
    {0x13A, 0x148, 2, -1},   {0x14B, 0x177, 2, -1},       {0x17A, 0x17E, 2, -1},          {0x17F, 0x17F, 1, -300, false},
    {0x371, 0x373, 2, -1},   {0x377, 0x377, 1, -1},       {0x37B, 0x37D, 1, 130},         {0x3AC, 0x3AC, 1, -38},
    {0x3AD, 0x3AF, 1, -37},  {0x3B1, 0x3C1, 1, -32},      {0x3C2, 0x3C2, 1, -31, false},  {0x3C3, 0x3CB, 1, -32},
    {0x3CC, 0x3CC, 1, -64},  {0x3CD, 0x3CE, 1, -63},      {0x3D7, 0x3D7, 1, -8},          {0x3D9, 0x3EF, 2, -1},
    {0x3F2, 0x3F2, 1, 7},    {0x3F3, 0x3F3, 1, -116},     {0x3F8, 0x3F8, 1, -1},          {0x3FB, 0x3FB, 1, -1},
    {0x430, 0x44F, 1, -32},  {0x450, 0x45F, 1, -80},      {0x461, 0x481, 2, -1},          {0x48B, 0x4BF, 2, -1},
    {0x4C2, 0x4CE, 2, -1},   {0x4CF, 0x4CF, 1, -15},      {0x4D1, 0x52F, 2, -1},          {0x561, 0x586, 1, -48},
    {0x1E01, 0x1E95, 2, -1}, {0x1EA1, 0x1EFF, 2, -1},     {0xFF41, 0xFF5A, 1, -32}};

bool has(const Letters& row, char32_t small) {
  return row.first <= small && small <= row.last && (small - row.first) % row.step == 0;
}
char32_t moved(char32_t point, int by) { return static_cast<char32_t>(static_cast<int>(point) + by); }

}  // namespace

void append_upper(std::string& text, char32_t point) {
  if (point == 0xDF) {  // ß
    text += "SS";
    return;
  }
  const auto row = std::ranges::find_if(letters, [&](const Letters& one) { return has(one, point); });
  append_utf8(text, row != std::end(letters) ? moved(point, row->capital) : point);
}

void append_lower(std::string& text, char32_t point) {
  const auto row =
      std::ranges::find_if(letters, [&](const Letters& one) { return one.both_ways && has(one, moved(point, -one.capital)); });
  append_utf8(text, row != std::end(letters) ? moved(point, -row->capital) : point);
}

}  // namespace lockstep::data::jinja
