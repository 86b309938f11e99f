// Internal.
#pragma once

#include <delayqueue/version.h>

#include <iterator>
#include <string_view>
#include <type_traits>
#include <utility>

namespace delayqueue {
inline namespace DELAYQUEUE_ABI {
namespace internal {

// Enabled for ranges that yield references or string views. A range that makes a temporary string for each element is
// refused: a view of it would dangle.
template <class Range, class Element = decltype(*std::begin(std::declval<const Range&>()))>
using IfPayloads = std::enable_if_t<std::is_convertible_v<Element, std::string_view> &&
                                    (std::is_lvalue_reference_v<Element> || std::is_trivially_copyable_v<Element>)>;

}  // namespace internal
}  // namespace DELAYQUEUE_ABI
}  // namespace delayqueue
