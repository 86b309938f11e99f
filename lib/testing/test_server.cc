#include "testing/test_server.h"

#include <delayqueue/error.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace delayqueue {
inline namespace DELAYQUEUE_ABI {
namespace testing {
namespace {

using std::chrono::microseconds;

constexpr std::chrono::minutes kProof{60};

// Leaves the marker that wakes a consumer of each queue: see docs/protocol.md, "Wake-ups".
constexpr char kWake[] = R"(
for _, registry in ipairs(KEYS) do
  for _, base in ipairs(redis.pcall('SMEMBERS', registry)) do
    redis.pcall('ZADD', base .. ':wake', 0, 'w')
    local top = redis.pcall('HGET', base .. ':settings', 'top')
    for partition = 1, (tonumber(type(top) == 'string' and top) or 1) - 1 do
      redis.pcall('ZADD', base .. ':wakes', 0, partition)
    end
  end
end)";

constexpr char kSlots[] = R"(
local slots = {}
for i, index in ipairs(KEYS) do slots[i] = redis.call('ZRANGE', index, 0, 0, 'WITHSCORES')[2] or '' end
return slots)";

PrivateServerOptions with_clock(PrivateServerOptions options, const ServerClock& clock) {
  for (std::string& variable : clock.environment()) options.environment.push_back(std::move(variable));
  // Its data need not survive a power cut, and a jump of the clock would make each fsync due.
  const std::vector<std::string> quick = {"--appendfsync", "no"};
  options.arguments.insert(options.arguments.begin(), quick.begin(), quick.end());
  return options;
}

}  // namespace

std::string to_text(milliseconds time) {
  const std::pair<long long, const char*> units[] = {{3'600'000, " h"}, {60'000, " min"}, {1000, " s"}, {1, " ms"}};
  for (const auto& [length, name] : units) {
    if (time.count() != 0 && time.count() % length == 0) return std::to_string(time.count() / length) + name;
  }
  return std::to_string(time.count()) + " ms";
}

std::string quoted(const std::string& name) {
  std::string text = "\"";
  for (const char c : name.substr(0, 64)) text += c >= ' ' && c <= '~' ? c : '?';
  return text + '"';
}

std::vector<MessageInfo> held_messages(Inspector& inspector) {
  std::vector<MessageInfo> held;
  ListOptions page;
  page.limit = 1000;
  page.bodies = false;
  do {
    MessagePage found = inspector.list(State::unack, page);
    for (MessageInfo& one : found.messages) {
      if (one.held) held.push_back(std::move(one));
    }
    page.cursor = found.next;
  } while (!page.cursor.empty());
  return held;
}

TestServer::TestServer(PrivateServerOptions options) {
  const bool temporary = options.folder.empty();
  // It starts in the past, so that the proof moves its clock in the direction that time has.
  clock_.move(-kProof);
  server_ = std::make_unique<PrivateServer>(with_clock(std::move(options), clock_));
  if (temporary) remover_ = std::make_unique<LeftoverRemover>(server_->folder());
  link_ = std::make_unique<ServerLink>(server_->socket());
  client_ = std::make_unique<Client>(server_->url());
  prove_clock();
  clock_.move(kProof);
}

void TestServer::prove_clock() {
  const ServerLink::Reply time = link_->call({"TIME"});
  const Time there{std::chrono::seconds(std::strtoll(time.elements.at(0).text.c_str(), nullptr, 10))};
  if (there < now() + kProof / 2 && there > now() - kProof / 2) return;
  throw SetupError(
      "Sandbox: the clock of the server cannot be moved: the library that does it was not loaded. It needs Linux, and "
      "a "
      "redis-server that is linked dynamically and that this user runs without setuid: install the package of the "
      "distribution, or set DELAYQUEUE_REDIS_SERVER to such a program");
}

void TestServer::find_queues() {
  registries_.clear();
  const std::string end = ":queues";
  for (const ServerLink::Reply& registry : link_->call({"KEYS", "*" + end}).elements) {
    if (link_->call({"TYPE", registry.text}).text != "set") continue;
    registries_.push_back(registry.text);
    const std::string prefix = registry.text.substr(0, registry.text.size() - end.size());
    for (const ServerLink::Reply& base : link_->call({"SMEMBERS", registry.text}).elements) {
      KeyOptions keys;
      keys.prefix = prefix;
      const bool tagged = !base.text.empty() && base.text.front() == '{';
      if (tagged) keys.hash_tag = HashTag::on;
      const std::size_t begin = (tagged ? 1 : 0) + prefix.size() + 1;
      if (queues_.count(base.text) > 0 || base.text.size() <= begin + (tagged ? 1 : 0)) continue;
      std::string name = base.text.substr(begin, base.text.size() - begin - (tagged ? 1 : 0));
      auto inspector = std::make_unique<Inspector>(client_->with_keys(keys), QueueName::of_existing(name));
      queues_.emplace(base.text, Queue{std::move(name), std::move(inspector)});
    }
  }
}

void TestServer::jump(microseconds by) {
  clock_.move(by);
  std::vector<std::string> wake = {"EVAL", kWake, std::to_string(registries_.size())};
  wake.insert(wake.end(), registries_.begin(), registries_.end());
  link_->call(wake);
}

std::vector<TestServer::InFlight> TestServer::in_flight() {
  std::vector<InFlight> found;
  for (auto& [base, queue] : queues_) {
    if (queue.inspector->counts().unack == 0) continue;
    for (MessageInfo& message : held_messages(*queue.inspector)) {
      if (message.at && *message.at > now()) found.push_back({queue.name, std::move(message)});
    }
  }
  return found;
}

std::vector<std::optional<Time>> TestServer::next_slots(const std::vector<std::string>& bases) {
  std::vector<std::string> words = {"EVAL", kSlots, std::to_string(bases.size())};
  for (const std::string& base : bases) words.push_back(base + ":schedules:next");
  std::vector<std::optional<Time>> slots;
  for (const ServerLink::Reply& slot : link_->call(words).elements) {
    const double seconds = std::strtod(slot.text.c_str(), nullptr);
    const bool is_time = seconds > 0 && seconds < 8e9;
    slots.push_back(is_time ? std::optional(Time(milliseconds(std::llround(seconds * 1000)))) : std::nullopt);
  }
  return slots;
}

}  // namespace testing
}  // namespace DELAYQUEUE_ABI
}  // namespace delayqueue
