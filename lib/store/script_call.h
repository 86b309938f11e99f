// What the calls of all scripts have in common. The build makes a class for each script from its manifest (see
// scripts/lua/README.md), in store/script_calls.h, which adds the keys of the queue and the arguments in their order.
#pragma once

#include "redis/pipeline.h"
#include "store/keys.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

namespace delayqueue::store {

// The name of a key in two parts, so that that of a body is not put together first.
struct KeyName {
  KeyName(const std::string& name) : front(name) {}  // NOLINT(google-explicit-constructor): a key of the queue
  KeyName(std::string_view prefix, std::string_view id) : front(prefix), back(id) {}

  std::string_view front, back;
};

// An argument. Those of each name are a type of their own, so arguments in another order do not compile.
class Arg {
 public:
  explicit Arg(std::string_view text) : text_(text) {}
  explicit Arg(const char* text) : text_(text) {}
  explicit Arg(bool is) : text_(is ? "1" : "0") {}
  template <class Integer, std::enable_if_t<std::is_integral_v<Integer>, int> = 0>
  explicit Arg(Integer number) : number_(static_cast<std::int64_t>(number)) {}
  template <class Rep, class Period>
  explicit Arg(std::optional<std::chrono::duration<Rep, Period>> time) {  // unset: ''
    if (time) number_ = time->count();
  }

  void add_to(redis::Pipeline& pipeline) const { number_ ? pipeline.arg(*number_) : pipeline.arg(text_); }

 private:
  std::string_view text_;
  std::optional<std::int64_t> number_;
};

// An argument that is not copied: see Pipeline::payload().
class PayloadArg {
 public:
  explicit PayloadArg(std::string_view bytes) : bytes_(bytes) {}

  void add_to(redis::Pipeline& pipeline) const { pipeline.payload(bytes_); }

 private:
  std::string_view bytes_;
};

// How a call adds its script: `alone` as a further request, or to the command that was added last, in a transaction.
enum class Joins { alone, last_command };

class ScriptCall {
 protected:
  template <class KeyNames>
  ScriptCall(redis::Pipeline& pipeline, const redis::Script& script, const KeyNames& keys, Joins joins)
      : pipeline_(pipeline) {
    joins == Joins::alone ? pipeline.script(script) : pipeline.in_transaction_with(script);
    for (const KeyName& key : keys) add(key);
  }

  void add(const KeyName& key) { pipeline_.key(key.front, key.back); }

  template <class... Args>
  void add_all(const Args&... args) {
    (args.add_to(pipeline_), ...);
  }

 private:
  redis::Pipeline& pipeline_;
};

}  // namespace delayqueue::store
