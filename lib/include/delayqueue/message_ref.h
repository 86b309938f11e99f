// MessageRef and MessageRefs: which messages a call concerns.
#pragma once

#include <delayqueue/export.h>

#include <cstddef>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace delayqueue {

// Which message: its id, from any string. A value, so that {"a", "b"} cannot be read as one std::string or
// std::string_view of two pointers. The call that it is passed to throws std::invalid_argument if the id is no UUID.
class MessageRef {
 public:
  template <class Text, class = std::enable_if_t<std::is_convertible_v<const Text&, std::string_view>>>
  MessageRef(const Text& id) {  // NOLINT(google-explicit-constructor)
    if constexpr (std::is_pointer_v<Text>) {
      if (id == nullptr) throw std::invalid_argument("id: null; expected a UUID");
    }
    id_ = std::string_view(id);
  }
  MessageRef(std::nullptr_t) = delete;

  const std::string& id() const { return id_; }

 private:
  std::string id_;
};

// One message or several: an id, ids in braces, or a vector of ids.
class MessageRefs {
 public:
  template <class Text, class = std::enable_if_t<std::is_convertible_v<const Text&, MessageRef>>>
  MessageRefs(const Text& message) : messages_{MessageRef(message)} {}  // NOLINT(google-explicit-constructor)
  MessageRefs(std::initializer_list<MessageRef> messages) : messages_(messages) {}
  MessageRefs(const std::vector<std::string>& ids)  // NOLINT(google-explicit-constructor)
      : messages_(ids.begin(), ids.end()) {}
  MessageRefs(std::nullptr_t) = delete;

  auto begin() const { return messages_.begin(); }
  auto end() const { return messages_.end(); }
  auto size() const { return messages_.size(); }

 private:
  std::vector<MessageRef> messages_;
};

}  // namespace delayqueue
