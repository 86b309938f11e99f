#include "hostile_queue.h"

#include <unistd.h>

#include "output/text.h"
#include "support/sanitized.h"
#include "support/server.h"

namespace test {
namespace {

using Commands = std::vector<std::vector<std::string>>;

constexpr std::array<const char*, 5> kStates = {"pending", "ready", "unack", "retry", "dead"};

// The start of an entry in the registry of consumers, without an end for all practical purposes.
const std::string kEntry = "7000000000000000 1\nhost=web\npid=1\n";

// A UUIDv7 of 2024 for a message of the state. `which`: 1 is the intact message, 2 the spoiled one.
std::string id_of(std::size_t state, int which) {
  return "018f0000-0000-7000-8000-0000000000" + std::to_string(state) + std::to_string(which);
}

std::string score(long long seconds) { return std::to_string(seconds) + ".123457"; }  // as a lease end

// Adds the body and the metadata of a message.
void add_metadata(Commands& commands, const std::string& base, const std::string& id) {
  commands.push_back({"SET", base + ":msg:" + id, "payload"});
  commands.push_back({"HSET", base + ":retry:cnt", id, "3"});
  commands.push_back({"HSET", base + ":attempts", id, "2 1700000000123457"});
  commands.push_back({"HSET", base + ":reason", id, "no such user"});
  commands.push_back({"HSET", base + ":headers", id,
                      "\x0c"
                      "content-type"
                      "\x04"
                      "text"});
}

HostileField of_hash(const std::string& name, const std::string& state) {
  return {name + ": value of " + state, [=](const auto& base, const auto& value) {
            return Commands{{"HSET", base + ':' + name, spoiled_id(state), value}};
          }};
}

HostileField of_zset(const std::string& name) {
  return {name + ": score", [=](const auto& base, const auto& value) {
            return Commands{{"ZADD", base + ':' + name, value, spoiled_id(name)}};
          }};
}

// The value as the id of a message, with a body and metadata.
HostileField as_member(const std::string& name, const std::string& when) {
  return {name + ": member, " + when, [=](const auto& base, const auto& value) {
            Commands commands;
            add_metadata(commands, base, value);
            commands.push_back(
                {"ZADD", base + ':' + name, when == "past" ? "1700000000.123457" : score(4'000'000'000), value});
            return commands;
          }};
}

HostileField as_element(const std::string& name, bool with_metadata) {
  return {name + ": element" + (with_metadata ? "" : " without metadata"), [=](const auto& base, const auto& value) {
            Commands commands;
            if (with_metadata) add_metadata(commands, base, value);
            commands.push_back({"RPUSH", base + ':' + name, value});
            return commands;
          }};
}

HostileField as_command(
    const std::string& name,
    const std::function<std::vector<std::string>(const std::string&, const std::string&)>& command) {
  return {name, [=](const auto& base, const auto& value) { return Commands{command(base, value)}; }};
}

std::vector<HostileField> make_fields() {
  std::vector<HostileField> fields;
  for (const char* zset : {"pending", "unack", "dead"}) {
    fields.push_back(of_zset(zset));
    fields.push_back(as_member(zset, "past"));
    fields.push_back(as_member(zset, "future"));
  }
  for (const char* list : {"ready", "retry"}) {
    fields.push_back(as_element(list, true));
    fields.push_back(as_element(list, false));
  }
  for (const char* hash : {"retry:cnt", "attempts", "reason", "headers"}) {
    for (const char* state : kStates) fields.push_back(of_hash(hash, state));
    fields.push_back(as_command(std::string(hash) + ": field", [=](const auto& base, const auto& value) {
      return std::vector<std::string>{"HSET", base + ':' + hash, value, "3"};
    }));
  }
  for (const char* total : {"sent", "delivered", "acked", "nacked", "retried", "dead", "expired", "cancelled",
                            "redriven", "purged", "another"}) {
    fields.push_back(as_command(std::string("stats: ") + total, [=](const auto& base, const auto& value) {
      return std::vector<std::string>{"HSET", base + ":stats", total, value};
    }));
  }
  fields.push_back(as_command("stats: field", [](const auto& base, const auto& value) {
    return std::vector<std::string>{"HSET", base + ":stats", value, "1"};
  }));
  for (const char* state : kStates) {
    fields.push_back(as_command(std::string("body of ") + state, [=](const auto& base, const auto& value) {
      return std::vector<std::string>{"SET", base + ":msg:" + spoiled_id(state), value};
    }));
  }
  fields.push_back(as_command("body: id", [](const auto& base, const auto& value) {
    return std::vector<std::string>{"SET", base + ":msg:" + value, "payload"};
  }));
  fields.push_back(as_command("garbage: member", [](const auto& base, const auto& value) {
    return std::vector<std::string>{"SADD", base + ":garbage", value};
  }));
  for (const char* state : kStates) {
    fields.push_back(as_command(std::string("body of ") + state + ": TTL", [=](const auto& base, const auto& value) {
      return std::vector<std::string>{"PEXPIRE", base + ":msg:" + spoiled_id(state), value};
    }));
  }
  for (const char* start : {"", "1 ", "1700000000123457 3 done ", "1700000000123457 - done me "}) {
    fields.push_back(
        as_command(std::string("actions: element after '") + start + "'", [=](const auto& base, const auto& value) {
          return std::vector<std::string>{"LPUSH", base + ":actions", start + value};
        }));
  }
  fields.push_back({"paused: TTL", [](const auto& base, const auto& value) {
                      return Commands{{"SET", base + ":paused", "why"}, {"PEXPIRE", base + ":paused", value}};
                    }});
  fields.back().holds_up = true;
  fields.push_back(as_command("paused", [](const auto& base, const auto& value) {
    return std::vector<std::string>{"SET", base + ":paused", value};
  }));
  fields.back().holds_up = true;
  fields.push_back(as_command("wake: member", [](const auto& base, const auto& value) {
    return std::vector<std::string>{"ZADD", base + ":wake", "0", value};
  }));
  fields.push_back(as_command("wake: score", [](const auto& base, const auto& value) {
    return std::vector<std::string>{"ZADD", base + ":wake", value, "w"};
  }));
  fields.push_back(as_command("watch", [](const auto& base, const auto& value) {
    return std::vector<std::string>{"SET", base + ":watch", value};
  }));
  fields.push_back(as_command("watch: time", [](const auto& base, const auto& value) {
    return std::vector<std::string>{"SET", base + ":watch", value + " zz"};
  }));
  fields.push_back(as_command("watch: who", [](const auto& base, const auto& value) {
    return std::vector<std::string>{"SET", base + ":watch", "1 " + value};
  }));
  for (int which : {3, 4, 5}) {
    const std::string start = which == 3 ? "" : which == 4 ? "7000000000000000 1\n" : kEntry + "name=";
    fields.push_back(as_command("consumers: value", [=](const auto& base, const auto& value) {
      return std::vector<std::string>{"HSET", base + ":consumers", id_of(0, which), start + value};
    }));
  }
  fields.push_back(as_command("consumers: field", [](const auto& base, const auto& value) {
    return std::vector<std::string>{"HSET", base + ":consumers", value, kEntry};
  }));
  fields.push_back(as_command("queues: member", [](const auto&, const auto& value) {
    return std::vector<std::string>{"SADD", "dp:queues", value};
  }));
  fields.push_back(as_command("queues: name", [](const auto&, const auto& value) {
    return std::vector<std::string>{"SADD", "dp:queues", "dp:" + value};
  }));
  fields.push_back(as_command("queues: name in braces", [](const auto&, const auto& value) {
    return std::vector<std::string>{"SADD", "dp:queues", "{dp:" + value + '}'};
  }));
  for (HostileField& field : fields) {
    const auto is = [&](const char* part) { return field.name.find(part) != std::string::npos; };
    field.number =
        is("score") || is("retry:cnt: value") || is("attempts: value") || is("stats: ") || is("watch") || is("TTL");
  }
  return fields;
}

std::vector<HostileField> make_types() {
  struct Type {
    const char* name;
    std::vector<std::string> command;  // the words between the key and the value
  };
  static const std::vector<Type> kTypes = {{"string", {"SET"}},         {"list", {"RPUSH"}},
                                           {"set", {"SADD"}},           {"zset", {"ZADD", "1"}},
                                           {"hash", {"HSET", "field"}}, {"stream", {"XADD", "*", "field"}}};
  static const std::vector<std::pair<const char*, const char*>> kKeys = {
      {"pending", "zset"},   {"ready", "list"},   {"unack", "zset"},     {"retry", "list"},
      {"retry:cnt", "hash"}, {"garbage", "set"},  {"attempts", "hash"},  {"reason", "hash"},
      {"dead", "zset"},      {"stats", "hash"},   {"paused", "string"},  {"wake", "zset"},
      {"watch", "string"},   {"msg:", "string"},  {"", "none"},          {"msg:another", "string"},
      {"queues", "set"},     {"headers", "hash"}, {"consumers", "hash"}, {"actions", "list"}};
  std::vector<HostileField> fields;
  for (const auto& [key, own] : kKeys) {
    for (const Type& type : kTypes) {
      if (std::string(own) == type.name) continue;
      HostileField field;
      const std::string suffix = key;
      field.name = (suffix.empty() ? "the base" : suffix) + " as a " + type.name;
      field.wrong_type = true;
      field.holds_up = true;
      field.put = [suffix, type](const std::string& base, const std::string& value) {
        const std::string key_name = suffix == "queues" ? "dp:queues"
                                     : suffix.empty()   ? base
                                     : suffix == "msg:" ? base + ":msg:" + spoiled_id("pending")
                                                        : base + ':' + suffix;
        std::vector<std::string> command = type.command;
        command.insert(command.begin() + 1, key_name);
        command.push_back(value);
        return Commands{{"DEL", key_name}, command};
      };
      fields.push_back(std::move(field));
    }
  }
  return fields;
}

}  // namespace

const std::vector<HostileValue>& hostile_strings() {
  static const std::vector<HostileValue> kValues = {
      {"controls", std::string("\x01\x02\a\b\t\v\f\r\x0e\x7f", 10)},
      {"escape", "\x1b[2J\x1b]0;title\a\x1b[6n\x1bP+q\x1b\\"},
      {"newline", "line\nline\r\nERR line\n"},
      {"NUL", std::string("a\0b\0", 4)},
      {"C1",
       "\xc2\x9b"
       "31m\xc2\x85\xc2\x90"},
      {"turned",
       "\xe2\x80\xae"
       "abc\xe2\x81\xa6\xd8\x9c\xf3\xa0\x80\x81\xe2\x80\xa8"},
      {"quotes", "'\"`\\'\\\"${IFS}"},
      {"no UTF-8", "\xff\xfe\xc0\x80\xed\xa0\x80\xf5 \xe2\x82"},
      {"option", "-rf"},
      {"long option", "--uri=redis://10.255.255.1:1"},
      {"shell", "$(id);`id`|id&\n*~!{a,b}"},
      {"path", "../../etc/passwd"},
      {"format", "%s%s%s%n%x%99999999d{}{0}"},
      {"glob", "*[?]\\*"},
      {"long", std::string(100'000, 'x')},
      {"long of controls",
       [] {
         std::string text;
         for (int i = 0; i < 25'000; ++i) text += "\x1b\xc2\x9b\n";
         return text;
       }()},
      {"wide",
       [] {
         std::string text;
         for (int i = 0; i < 1000; ++i) text += "\xe6\x97\xa5\xcc\x81\xcc\x81\xcc\x81";  // each with combining marks
         return text;
       }()},
      {"deep JSON", std::string(100'000, '[')},
      {"deep whole JSON", std::string(50'000, '[') + std::string(50'000, ']')},
      {"JSON numbers", R"({"a":1e999,"a":-1e999,"b":-0,"c":1e-999,"d":99999999999999999999999,"id":1e308})"},
      {"empty", ""},
      {"blank", " \t "},
      {"braces", "{q}"},
      {"of Redis", "$-1\r\n*3\r\n-ERR\r\n"},
  };
  return kValues;
}

const std::vector<HostileValue>& hostile_numbers() {
  static const std::vector<HostileValue> kValues = [] {
    std::vector<HostileValue> values;
    for (const char* number : {"inf",
                               "-inf",
                               "nan",
                               "1e300",
                               "-1e300",
                               "1.7976931348623157e308",
                               "9223372036854775807",
                               "-9223372036854775808",
                               "9223372036854775808",
                               "18446744073709551615",
                               "18446744073709551616",
                               "1e-320",
                               "-0",
                               "0",
                               "-1",
                               "1",
                               "9223372036854.775",
                               "-9223372036854.775",
                               "9223372036.854775",
                               "-9223372036.854776",
                               "1e10",
                               "-1e10",
                               "1e12",
                               "-1e12",
                               "253402300800",
                               "-62135596801",
                               "2147483647",
                               "2147483647 1700000000123457",
                               "2147483648",
                               "0x7fffffffffffffff",
                               "1e2",
                               "bar",
                               " 1",
                               "007",
                               "2147483648 9223372036854775807",
                               "-1 -1",
                               "9 9223372036854775808",
                               "1 zz"}) {
      values.push_back({number, number});
    }
    values.push_back({"many digits", std::string(400, '9')});
    return values;
  }();
  return kValues;
}

const std::vector<HostileField>& hostile_fields() {
  static const std::vector<HostileField> kFields = make_fields();
  return kFields;
}

const std::vector<HostileField>& hostile_types() {
  static const std::vector<HostileField> kFields = make_types();
  return kFields;
}

void build_queue() {
  redis().cmd({"FLUSHALL"});
  Commands commands;
  for (std::size_t state = 0; state < kStates.size(); ++state) {
    for (int which = 1; which <= 2; ++which) {
      const std::string id = id_of(state, which), key = kBase + ':' + kStates[state];
      add_metadata(commands, kBase, id);
      const bool list = kStates[state] == std::string("ready") || kStates[state] == std::string("retry");
      if (list) {
        commands.push_back({"LPUSH", key, id});
      } else {
        commands.push_back(
            {"ZADD", key, score(kStates[state] == std::string("dead") ? 1'700'000'000 : 4'000'000'000), id});
      }
    }
  }
  for (const char* id : {"018f0000-0000-7000-8000-000000000041", "018f0000-0000-7000-8000-000000000042"}) {
    commands.push_back({"HDEL", kBase + ":retry:cnt", id});  // of dead messages
  }
  commands.push_back({"HSET", kBase + ":stats", "sent", "10", "delivered", "8", "nacked", "4", "dead", "2"});
  commands.push_back({"SADD", "dp:queues", kBase, "dp:" + kBeside});
  add_metadata(commands, "dp:" + kBeside, id_of(9, 1));
  commands.push_back({"LPUSH", "dp:" + kBeside + ":ready", id_of(9, 1)});
  for (const auto& command : commands) {
    if (redis().cmd(command).error()) std::abort();
  }
}

bool spoil(const HostileField& field, const std::string& value) {
  bool taken = false;
  for (const auto& command : field.put(kBase, value)) {
    taken = !redis().cmd(command).error();
  }
  return taken;
}

void build_spoiled(Fields which, const std::string& value) {
  build_queue();
  for (const HostileField& field : hostile_fields()) {
    const bool counted = field.name.find("score") != std::string::npos || field.name.rfind("stats: ", 0) == 0;
    if (counted == (which == Fields::counted)) spoil(field, value);
  }
}

std::string spoiled_id(const std::string& state) {
  for (std::size_t i = 0; i < kStates.size(); ++i) {
    if (state == kStates[i]) return id_of(i, 2);
  }
  std::abort();
}

std::vector<std::string> all_ids() {
  std::vector<std::string> ids;
  for (std::size_t state = 0; state < kStates.size(); ++state)
    ids.push_back(id_of(state, 1)), ids.push_back(id_of(state, 2));
  return ids;
}

bool is_unsafe(const std::string& text) {
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    if (dqctl::printable(line) != line) return true;
    begin = end + 1;
  }
  return false;
}

// Under a sanitizer a step with strings of 100 KB takes ten times as long.
constexpr std::chrono::seconds kLongestStep{TEST_SANITIZED ? 300 : 30};

class Watchdog::Impl {
 public:
  Impl() : thread_([this] { run(); }) {}

  ~Impl() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_one();
    thread_.join();
    ::close(err_);
  }

  void step(const std::string& what) {
    const std::lock_guard lock(mutex_);
    what_ = what;
    ++steps_;
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (!over_) {
      const auto before = steps_;
      const bool moved = changed_.wait_for(lock, kLongestStep, [&] { return over_; }) || steps_ != before;
      if (moved) continue;
      ::dprintf(err_, "hangs: %s\n", what_.c_str());
      std::abort();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::string what_ = "nothing yet";
  unsigned long steps_ = 0;
  bool over_ = false;
  const int err_ = ::dup(STDERR_FILENO);  // a test may replace descriptor 2
  std::thread thread_;
};

Watchdog::Watchdog() : impl_(new Impl) {}
Watchdog::~Watchdog() { delete impl_; }
void Watchdog::step(const std::string& what) { impl_->step(what); }

}  // namespace test
