#include "lab/step/op_account.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/timer.h"

namespace lockstep::lab {
namespace {

// Families that are not named here work on rows.
Part part_of(std::string_view family) {
  constexpr std::array<std::pair<std::string_view, Part>, 5> parts{{{"linear", Part::products},
                                                                    {"attention", Part::attention},
                                                                    {"loss", Part::loss},
                                                                    {"reduce", Part::update},
                                                                    {"update", Part::update}}};
  const auto* found = std::ranges::find(parts, family, &std::pair<std::string_view, Part>::first);
  return found != parts.end() ? found->second : Part::rows;
}

ProductRole role_of(ops::LayerProduct product) {
  if (product == ops::LayerProduct::forward) return ProductRole::forward;
  return product == ops::LayerProduct::input_gradient ? ProductRole::input_gradient : ProductRole::weight_gradient;
}

// Where the entry is that `is_it` accepts; `entry` is put behind the others when there is none.
template <class Entry, class IsIt>
std::size_t place_of(std::vector<Entry>& entries, const IsIt& is_it, const Entry& entry) {
  const auto place = static_cast<std::size_t>(std::ranges::find_if(entries, is_it) - entries.begin());
  if (place == entries.size()) entries.push_back(entry);
  return place;
}

}  // namespace

std::string_view name_of(Part part) {
  constexpr std::array<std::string_view, static_cast<std::size_t>(Part::count)> names = {
      "products", "attention", "norms and elementwise", "loss", "clip and AdamW", "waiting for ranks", "rest"};
  return names[static_cast<std::size_t>(part)];
}

void OpAccount::begin(const ops::OpCall& call) {
  const auto is_op = [&](const OpTime& op) { return op.family == call.family && op.name == call.name; };
  op_ = place_of(ops_, is_op, {call.family, call.name, part_of(call.family)});
  if (call.product != ops::LayerProduct::none) {
    const ProductRole role = role_of(call.product);
    const auto is_product = [&](const ProductTime& p) {
      return p.role == role && p.m == call.m && p.n == call.n && p.k == call.k;
    };
    product_ = place_of(products_, is_product, {role, call.m, call.n, call.k});
  }
  if (stream_ != nullptr) stream_->synchronize();
  start_ = now_seconds();
}

void OpAccount::end(const ops::OpCall& call) noexcept {
  try {
    if (stream_ != nullptr) stream_->synchronize();
  } catch (const std::exception&) {  // the stream fails its next call too, which tells the user
    return;
  }
  const double seconds = now_seconds() - start_;
  ops_[op_].seconds += seconds;
  ++ops_[op_].calls;
  if (call.product == ops::LayerProduct::none) return;
  products_[product_].seconds += seconds;
  ++products_[product_].calls;
}

double OpAccount::seconds(Part part) const {
  double sum = 0;
  for (const OpTime& op : ops_) {
    if (op.part == part) sum += op.seconds;
  }
  return sum;
}

void OpAccount::reset() {
  ops_.clear();
  products_.clear();
}

}  // namespace lockstep::lab
