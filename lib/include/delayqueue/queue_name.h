// QueueName and QueueNames: the names of queues, as constructors take them.
#pragma once

#include <delayqueue/export.h>

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace delayqueue {

// The name of a queue: 1 to 255 bytes of valid UTF-8 without control characters, which do not end in
// #<number>.<number>. In a Cluster, and with HashTag::on, an object with this name refuses braces in it, too. Made from
// a string, a string view or a literal; two texts in braces do not compile, because they would be one std::string of
// two pointers. A value: copies are independent.
class DELAYQUEUE_EXPORT QueueName {
 public:
  // Throws std::invalid_argument for another name, and for a null pointer.
  template <class Text, class = std::enable_if_t<std::is_convertible_v<const Text&, std::string_view>>>
  QueueName(const Text& name) : name_(checked(name)) {}  // NOLINT(google-explicit-constructor)
  QueueName(std::nullptr_t) = delete;

  // A queue that another program, or a version before this check, has made: its name is not checked. An Inspector and a
  // QueueAdmin read, empty and forget it. A Producer and a Consumer refuse a name that is not as above.
  static QueueName of_existing(std::string name) { return {Unchecked(), std::move(name)}; }

  const std::string& str() const { return name_; }

  friend bool operator==(const QueueName& a, const QueueName& b) { return a.name_ == b.name_; }
  friend bool operator!=(const QueueName& a, const QueueName& b) { return !(a == b); }

 private:
  struct Unchecked {};
  QueueName(Unchecked, std::string name) : name_(std::move(name)) {}
  static std::string checked(const char* name);
  static std::string checked(std::string_view name);

  std::string name_;
};

// The names of one queue or of several: "orders", {"orders", "mails"}, or a vector of strings. A value: copies are
// independent.
class QueueNames {
 public:
  template <class Text, class = std::enable_if_t<std::is_convertible_v<const Text&, QueueName>>>
  QueueNames(const Text& name) : names_{QueueName(name)} {}  // NOLINT(google-explicit-constructor)
  QueueNames(std::initializer_list<QueueName> names) : names_(names) {}
  QueueNames(std::vector<QueueName> names) : names_(std::move(names)) {}  // NOLINT(google-explicit-constructor)

  // No parameter of the type itself, which braces could make of two pointers.
  template <class Strings, std::enable_if_t<std::is_same_v<Strings, std::vector<std::string>>, int> = 0>
  QueueNames(const Strings& names) : names_(names.begin(), names.end()) {}  // NOLINT(google-explicit-constructor)

  std::vector<QueueName>::const_iterator begin() const { return names_.begin(); }
  std::vector<QueueName>::const_iterator end() const { return names_.end(); }
  std::size_t size() const { return names_.size(); }

 private:
  std::vector<QueueName> names_;
};

}  // namespace delayqueue
