// Headers: what a message carries besides its payload, such as a content type or the id of a trace.
#pragma once

#include <delayqueue/detail/braces.h>
#include <delayqueue/export.h>

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace delayqueue {

// Names with values, in the order in which they were set. Each name occurs once. It has 1 to 127 characters of
// printable ASCII without spaces and '='; upper and lower case differ. A value is any bytes, or empty.
//
// A message has at most kMost headers. Their names and values have at most kMostBytes together, where each name and
// each value counts one byte more for its length, or two bytes if it has 128 or more. Names that begin with "dq-", in
// upper or lower case, are reserved: set() refuses them. By convention, "content-type" has the type of the payload.
//
// A value type: copies are independent. An object must not be changed while another thread uses it.
class DELAYQUEUE_EXPORT Headers {
 public:
  using value_type = std::pair<std::string, std::string>;  // name and value
  using const_iterator = std::vector<value_type>::const_iterator;

  static constexpr std::size_t kMost = 64;
  static constexpr std::size_t kMostBytes = 8 * 1024;

  Headers() = default;
  // Calls set() for each pair.
  Headers(std::initializer_list<std::pair<internal::Name, internal::Name>> pairs);

  // Adds a header, or replaces the value of the one with this name, which keeps its place. Throws
  // std::invalid_argument, which names the header, if the name is not valid or reserved, or if there would be too many
  // headers or bytes. Then nothing is changed.
  void set(internal::Name name, internal::Name value);

  // Returns false if there was none with this name.
  bool erase(std::string_view name);

  // The value, valid until the headers change; null: there is no header with this name.
  const std::string* find(std::string_view name) const;

  const_iterator begin() const { return pairs_.begin(); }
  const_iterator end() const { return pairs_.end(); }
  std::size_t size() const { return pairs_.size(); }
  bool empty() const { return pairs_.empty(); }

  // Equal: the same pairs in the same order.
  friend bool operator==(const Headers& a, const Headers& b) { return a.pairs_ == b.pairs_; }
  friend bool operator!=(const Headers& a, const Headers& b) { return a.pairs_ != b.pairs_; }

 private:
  friend struct StoredHeaders;  // internal
  void add(std::string name, std::string value);

  std::vector<value_type> pairs_{};
};

}  // namespace delayqueue
