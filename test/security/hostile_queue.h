// A queue with messages in every state, and every field of it that another user of the same Redis can write to.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace test {

struct HostileValue {
  std::string name;
  std::string bytes;
};

// Controls, escape sequences, quotes, no UTF-8, very long ...
const std::vector<HostileValue>& hostile_strings();

// Not finite, beyond every type, denormal, none at all ...
const std::vector<HostileValue>& hostile_numbers();

struct HostileField {
  std::string name;
  // Redis commands that put a value there, in a queue made by build_queue(). Redis may refuse some: no zset takes "nan".
  std::function<std::vector<std::vector<std::string>>(const std::string& base, const std::string& value)> put;
  bool holds_up = false;    // rightly: consumers take nothing
  bool number = false;      // what is read as one
  bool wrong_type = false;  // of a key that calls cannot do without: they may throw ReplyError
};

// All fields that take any value.
const std::vector<HostileField>& hostile_fields();

// Every key of the queue, as each other type there is. What stands in it is the value.
const std::vector<HostileField>& hostile_types();

// The only queue of server(), with its `beside`: a queue that must not notice anything.
inline const std::string kQueue = "q", kBase = "dp:q", kBeside = "~beside";
void build_queue();

// False if Redis takes none of it.
bool spoil(const HostileField& field, const std::string& value);

// The ids of the message in a state that fields spoil: pending, ready, unack, retry, dead.
std::string spoiled_id(const std::string& state);
std::vector<std::string> all_ids();

// Whether it holds what could drive a terminal, or is no UTF-8; newlines are well.
bool is_unsafe(const std::string& text);

// All fields of a kind with one value, in a new queue: those that keep a queue from being counted, or all others.
enum class Fields { counted, others };
void build_spoiled(Fields which, const std::string& value);

// Ends the process, with the names of what it did, when the next step takes longer than 30 s.
class Watchdog {
 public:
  Watchdog();
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void step(const std::string& what);

 private:
  class Impl;
  Impl* impl_;
};

}  // namespace test
