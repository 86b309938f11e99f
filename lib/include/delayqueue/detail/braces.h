// What keeps {"a", "b"} from being one std::string or std::string_view of two pointers. Internal.
#pragma once

#include <delayqueue/version.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace delayqueue {
inline namespace DELAYQUEUE_ABI {
namespace internal {

// For deleted overloads: enabled for braces that hold two texts or more where one is expected.
template <std::size_t kLength>
using IfSeveral = std::enable_if_t<(kLength > 1)>;

// A std::string that two texts in braces cannot make.
class Name : public std::string {
 public:
  Name() = default;
  template <class Text, class = std::enable_if_t<std::is_convertible_v<Text, std::string>>>
  Name(Text&& text) : std::string(std::forward<Text>(text)) {}
  Name(const char* data, std::size_t size) : std::string(data, size) {}
};

// A view of a payload in a list in braces. {"a", {}} is none: it is a payload with options.
class Payload {
 public:
  template <class Text, class = std::enable_if_t<std::is_convertible_v<const Text&, std::string_view>>>
  Payload(const Text& text) : text_(text) {}
  template <class Size, class = std::enable_if_t<std::is_integral_v<Size>>>
  Payload(const char* data, Size size) : text_(data, static_cast<std::size_t>(size)) {}
  operator std::string_view() const { return text_; }

 private:
  std::string_view text_;
};

}  // namespace internal
}  // namespace DELAYQUEUE_ABI
}  // namespace delayqueue
