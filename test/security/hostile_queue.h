// A queue with messages in every state, and all fields of it that another user of the same Redis can write.
#pragma once

#include "support/standard.h"

namespace test {

struct HostileValue {
  std::string name;
  std::string bytes;
};

// Control characters, escape sequences, quotes, bytes that are not UTF-8, very long strings and more.
const std::vector<HostileValue>& hostile_strings();

// Numbers that are not finite, too large for every type or denormal, texts that are no numbers, and more.
const std::vector<HostileValue>& hostile_numbers();

struct HostileField {
  std::string name;
  // Redis commands that write the value into a queue made by build_queue(). Redis refuses some, as "nan" in a sorted
  // set.
  std::function<std::vector<std::vector<std::string>>(const std::string& base, const std::string& value)> put;
  bool holds_up = false;    // by design: with this value consumers take no messages
  bool number = false;      // the library reads the field as a number
  bool wrong_type = false;  // calls that need this key may throw ReplyError
};

// All fields that accept any value.
const std::vector<HostileField>& hostile_fields();

// Every key of the queue as every other type. The value is its content.
const std::vector<HostileField>& hostile_types();

// Empties server() and makes kQueue and kBeside: a second queue, which no hostile value may affect.
inline const std::string kQueue = "q", kBase = "dp:q", kBeside = "~beside";
void build_queue();

// Writes the value. Returns false if Redis refuses every command.
bool spoil(const HostileField& field, const std::string& value);

// The id of the message of a state whose fields are spoiled. States: pending, ready, unack, retry, dead.
std::string spoiled_id(const std::string& state);
std::vector<std::string> all_ids();

// Whether the text holds control characters other than newlines, or is not UTF-8.
bool is_unsafe(const std::string& text);

// Makes a new queue with one value in all fields of a kind: `counted` are scores and statistics, `others` the rest.
enum class Fields { counted, others };
void build_spoiled(Fields which, const std::string& value);

// Ends the process, with the name of the step, when a step takes longer than 30 s.
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
