#include "support/ledger.h"

#include "support/text.h"
#include "support/with.h"

namespace test {

using delayqueue::Message;

namespace {

std::mutex gates_mutex;  // guards gates
std::set<Gate*> gates;   // all that exist

}  // namespace

// Marks a delivery as running, from construction to destruction.
class Ledger::Running {
 public:
  Running(Ledger& ledger, const Message& message, const std::string& by) : ledger_(ledger) {
    const std::lock_guard lock(ledger_.mutex_);
    Entry entry{message, by};
    for (const std::size_t at : ledger_.running_) {
      const Message& other = ledger_.entries_[at].message;
      if (other.id() == message.id() && !other.lease_lost()) entry.overlapped = true;
    }
    at_ = ledger_.entries_.size();
    ledger_.entries_.push_back(std::move(entry));
    ledger_.different_.insert(message.id());
    ledger_.running_.insert(at_);
    ledger_.most_running_ = std::max(ledger_.most_running_, ledger_.running_.size());
  }
  ~Running() {
    const std::lock_guard lock(ledger_.mutex_);
    ledger_.entries_[at_].running = false;
    ledger_.running_.erase(at_);
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  Ledger& ledger_;
  std::size_t at_ = 0;
};

MessageHandler Ledger::watch(MessageHandler inner, const std::string& by) {
  return [this, by, inner = std::move(inner)](const Message& message) {
    const Running running(*this, message, by);
    return inner(message);
  };
}

std::vector<Ledger::Entry> Ledger::entries() const {
  const std::lock_guard lock(mutex_);
  return entries_;
}

std::vector<std::string> Ledger::payloads() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> result;
  for (const Entry& entry : entries_) result.push_back(entry.message.payload());
  return result;
}

std::vector<int> Ledger::attempts(const std::string& payload) const {
  const std::lock_guard lock(mutex_);
  std::vector<int> result;
  for (const Entry& entry : entries_) {
    if (entry.message.payload() == payload) result.push_back(entry.message.attempt());
  }
  return result;
}

std::size_t Ledger::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

std::size_t Ledger::running() const {
  const std::lock_guard lock(mutex_);
  return running_.size();
}

std::size_t Ledger::most_running() const {
  const std::lock_guard lock(mutex_);
  return most_running_;
}

std::size_t Ledger::different() const {
  const std::lock_guard lock(mutex_);
  return different_.size();
}

std::size_t Ledger::overlaps() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(
      std::count_if(entries_.begin(), entries_.end(), [](const Entry& entry) { return entry.overlapped; }));
}

bool Ledger::reaches(std::size_t deliveries) const {
  return eventually([&] { return size() >= deliveries; }, kPatience);
}

bool Ledger::settles(std::size_t deliveries) const {
  return eventually(
      [&] {
        const std::lock_guard lock(mutex_);
        return entries_.size() - running_.size() >= deliveries;
      },
      kPatience);
}

Gate::Gate() {
  const std::lock_guard lock(gates_mutex);
  gates.insert(this);
}

Gate::~Gate() {
  const std::lock_guard lock(gates_mutex);
  gates.erase(this);
}

void Gate::pass() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return open_; });
}

void Gate::open() {
  const std::lock_guard lock(mutex_);
  open_ = true;
  changed_.notify_all();
}

void Gate::open_all() {
  const std::lock_guard lock(gates_mutex);
  for (Gate* gate : gates) gate->open();
}

void EndConsumer::operator()(delayqueue::Consumer* consumer) const {
  Gate::open_all();
  delete consumer;
}

std::vector<std::string> numbers(std::size_t count) {
  std::vector<std::string> texts;
  texts.reserve(count);
  for (std::size_t i = 0; i < count; ++i) texts.push_back(std::to_string(i));
  return texts;
}

long long redis_time_us(Redis& on) {
  const auto time = on.cmd({"TIME"}).strings();
  return std::stoll(time.at(0)) * 1'000'000 + std::stoll(time.at(1));
}

delayqueue::ConsumerOptions quick(std::size_t concurrency) {
  delayqueue::ConsumerOptions options;
  options.concurrency = concurrency;
  options.tuning.poll_interval = std::chrono::milliseconds(20);
  options.tuning.reconnect_grace = std::chrono::milliseconds(0);
  options.backoff = delayqueue::Backoff::fixed(std::chrono::milliseconds(0));
  return options;
}

delayqueue::SendOptions delayed(std::chrono::milliseconds delay) {
  delayqueue::SendOptions options;
  options.delay = delay;
  return options;
}

delayqueue::SendOptions named(const std::string& id, std::chrono::milliseconds delay) {
  delayqueue::SendOptions options = delayed(delay);
  options.id = id;
  return options;
}

delayqueue::ClientOptions logged_in_as(const std::string& user, const std::string& password) {
  delayqueue::ClientOptions options;
  options.user = user;
  options.password = password;
  return options;
}

delayqueue::ClientOptions with_timeouts(std::chrono::milliseconds timeout) {
  delayqueue::ClientOptions options;
  options.connect_timeout = options.command_timeout = timeout;
  return options;
}

delayqueue::ClientOptions reporting_events() {
  delayqueue::ClientOptions options;
  options.keys.go.report_events = true;
  return options;
}

delayqueue::ProducerOptions one_attempt() {
  delayqueue::ProducerOptions options;
  options.send_timeout = std::chrono::milliseconds(0);
  return options;
}

Queue::Queue(const std::string& url_, const delayqueue::ProducerOptions& options)
    : url(url_), client(url), producer(client, name, options), inspector(client, name), admin(client, name) {}

ConsumerPtr Queue::consumer(delayqueue::Handler handler, delayqueue::ConsumerOptions options,
                            const delayqueue::ClientOptions& client_options) const {
  return ConsumerPtr(new delayqueue::Consumer({url, client_options}, name, std::move(handler), std::move(options)));
}

delayqueue::State Queue::state(const std::string& id) {
  const auto found = inspector.find(id);
  return found ? found->state : delayqueue::State::unknown;
}

std::string Queue::send(const std::string& payload, const delayqueue::SendOptions& options) {
  return producer.send(payload, options).id;
}

Snapshot Queue::kept(Redis& on) const {
  Snapshot all = snapshot(base, on);
  all.erase("wake");
  all.erase("wakes");
  all.erase("watch");
  all.erase("consumers");
  return all;
}

bool Queue::empty(Redis& on) const {
  Snapshot all = kept(on);
  all.erase("stats");
  all.erase("settings");
  return all.empty();
}

delayqueue::ConsumerStats stats_of(const delayqueue::Consumer& consumer, const std::string& queue) {
  for (const delayqueue::ConsumerQueueMetrics& one : consumer.metrics().queues) {
    if (one.queue == queue) return one.stats;
  }
  throw std::logic_error("the consumer has no queue " + queue);
}

delayqueue::Client client_named(const std::string& name) {
  return {server().url(), with(&delayqueue::ClientOptions::client_name, name)};
}

std::vector<std::string> connections_named(const std::string& name, Redis& on) {
  std::istringstream all(on.cmd({"CLIENT", "LIST"}).text);
  std::vector<std::string> found;
  for (std::string line; std::getline(all, line);) {
    if (has(line, " name=" + name + " ")) found.push_back(line);
  }
  return found;
}

std::string connection_id(const std::string& line) { return line.substr(3, line.find(' ') - 3); }

std::vector<std::string> connection_ids(const std::string& name, Redis& on) {
  std::vector<std::string> ids;
  for (const std::string& line : connections_named(name, on)) ids.push_back(connection_id(line));
  return ids;
}

std::size_t cut_connections(const std::string& name, Redis& on) {
  std::size_t cut = 0;
  for (const std::string& id : connection_ids(name, on)) {
    if (on.cmd({"CLIENT", "KILL", "ID", id}) == 1) ++cut;
  }
  return cut;
}

std::string info(const std::string& section, const std::string& field, Redis& on) {
  std::istringstream lines(on.cmd({"INFO", section}).text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.rfind(field + ":", 0) == 0) return line.substr(field.size() + 1);
  }
  return {};
}

std::size_t calls_of(const std::string& command, Redis& on) {
  const std::string line = info("commandstats", "cmdstat_" + command, on);
  return line.empty() ? 0 : static_cast<std::size_t>(std::stoul(line.substr(line.find('=') + 1)));
}

std::string thrown(const std::function<void()>& call) {
  try {
    call();
  } catch (const delayqueue::ConnectionError& e) {
    return std::string("ConnectionError: ") + e.what();
  } catch (const delayqueue::ReplyError& e) {
    return std::string("ReplyError: ") + e.what();
  } catch (const std::invalid_argument& e) {
    return std::string("invalid_argument: ") + e.what();
  } catch (const std::exception& e) {
    return std::string("another exception: ") + e.what();
  }
  return "nothing";
}

}  // namespace test
