// A master and its replicas, watched over by Sentinels.
#include "os/interrupt.h"
#include "redis/escaped.h"
#include "redis/pipeline.h"
#include "redis/topology.h"

#include <delayqueue/error.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

namespace delayqueue::redis {
namespace {

constexpr milliseconds kLook{500};  // between looks at the master's address, should the news of a switch get lost
constexpr milliseconds kSentinelAnswers{500};
constexpr milliseconds kOneSentinel{10'000};  // is heard, then the next: one alone may be cut off from the others
constexpr milliseconds kGoesBack{10'000};     // what is older is all that is heard for so long, then it is believed
constexpr milliseconds kNextSentinel{10};     // after one has failed
constexpr milliseconds kRefused{5000};        // after one has refused us: to ask again soon may lock an account

// Of the Sentinels themselves: nothing of how one logs in to the data nodes.
ConnectionOptions to_sentinels(const ConnectionOptions& options) {
  ConnectionOptions own = in_a_hurry(options);
  own.command_timeout = std::min(options.command_timeout, kSentinelAnswers);
  own.tls = options.sentinel.tls.value_or(options.tls);
  return own;
}

Login login_to_sentinels(const ConnectionOptions& options) {
  Login login;
  login.user = options.sentinel.user;
  login.password = options.sentinel.password;
  login.client_name = options.client_name.empty() ? "delayqueue" : options.client_name;
  return login;
}

// What a Sentinel says, and how new that is: every failover has a greater epoch.
struct Word {
  Address master;
  long long epoch = -1;
};

bool older(const Word& a, const Word& b) { return a.epoch < b.epoch; }
bool agree(const Word& a, const Word& b) { return a.master.text() == b.master.text(); }
bool is_behind(const Word& word, const Word& known) { return older(word, known) && !agree(word, known); }

class SentinelTopology : public Topology {
 public:
  SentinelTopology(const Url& url, const ConnectionOptions& options)
      : name_(url.master),
        where_(url.text()),
        login_(login_of(url, options)),
        options_(options),
        sentinel_login_(login_to_sentinels(options)),
        sentinel_options_(to_sentinels(options)),
        tls_(url.addresses.front().tls),
        all_(addresses_of(url, options)),
        preferred_(all_) {}

  ~SentinelTopology() override {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
      for (const auto& shutdown_handle : listening_) shutdown_handle->cut();
    }
    interrupt_.raise();
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  std::unique_ptr<Connection> connect() override {
    const Deadline deadline = Clock::now() + options_.connect_timeout;
    begin();
    for (;;) {
      const bool doubted = in_doubt();
      if (doubted) ask_around(deadline);
      try {
        return ask_in_turn(preferred(), "no Sentinel of " + where_ + " leads to the master '" + name_ + "'", deadline,
                           [this](const Address& sentinel) { return connect_by(sentinel); });
      } catch (const ConnectionError&) {
        if (doubted || !in_doubt() || Clock::now() >= deadline) throw;
      }
    }
  }

  // Replicas that a Sentinel finds down are named, too: they may come back.
  std::vector<Address> servers() override {
    return ask_in_turn(preferred(), "no Sentinel of " + where_ + " names the servers of '" + name_ + "'",
                       Clock::now() + options_.connect_timeout,
                       [this](const Address& sentinel) { return servers_by(*open(sentinel)); });
  }

  std::unique_ptr<Connection> dial(const Address& server) override {
    return std::make_unique<Connection>(server, login_, options_);
  }

 private:
  static std::vector<Address> addresses_of(const Url& url, const ConnectionOptions& options) {
    std::vector<Address> addresses = url.addresses;
    for (Address& sentinel : addresses) sentinel.tls = options.sentinel.encrypted.value_or(sentinel.tls);
    return addresses;
  }

  // ---- Asking ----

  // From now on the Sentinels are followed, too.
  void begin() {
    const std::lock_guard lock(mutex_);
    if (!thread_.joinable()) thread_ = std::thread([this] { follow(); });
  }

  std::vector<Address> preferred() {
    const std::lock_guard lock(mutex_);
    return preferred_;
  }

  std::unique_ptr<Connection> open(const Address& sentinel) const {
    return std::make_unique<Connection>(sentinel, sentinel_login_, sentinel_options_);
  }

  std::unique_ptr<Connection> connect_by(const Address& sentinel) {
    Word word;
    try {
      word = newer(ask(*open(sentinel)));
      auto connection = dial(word.master);
      check_role(*connection);
      use(word, *connection);
      prefer(sentinel, true);
      return connection;
    } catch (const Error&) {
      doubt(word);
      prefer(sentinel, false);
      throw;
    }
  }

  std::vector<Address> servers_by(Connection& sentinel) {
    std::vector<Address> servers = {newer(ask(sentinel)).master};
    Pipeline pipeline(sentinel);
    pipeline.command("SENTINEL").arg("REPLICAS").arg(name_);
    pipeline.run();
    const Reply replicas = pipeline.reply(0);
    for (std::size_t i = 0; i < replicas.size() && servers.size() < kMostNodes; ++i) {
      Address server;
      for (std::size_t field = 0; field + 1 < replicas[i].size(); field += 2) {
        const Reply value = replicas[i][field + 1];
        if (replicas[i][field].text() == "ip") server.host = value.text();
        if (replicas[i][field].text() == "port") server.port = port_of(value, sentinel);
      }
      server.tls = tls_;
      const auto same = [&](const Address& known) { return known.text() == server.text(); };
      if (server.host.empty() || std::any_of(servers.begin(), servers.end(), same)) continue;
      servers.push_back(server);
    }
    return servers;
  }

  Word ask(Connection& sentinel) const {
    Pipeline pipeline(sentinel);
    pipeline.command("SENTINEL").arg("MASTER").arg(name_);  // first: an old epoch with a new address does no harm
    pipeline.command("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(name_);
    pipeline.run();
    const Reply address = pipeline.reply(1);
    if (address.is_nil()) {
      throw ReplyError("the Sentinel at " + sentinel.where() + " knows no master '" + name_ + "'; check the URL");
    }
    Word word;
    word.master.host = address[0].text();
    word.master.port = port_of(address[1], sentinel);
    word.master.tls = tls_;
    const Reply facts = pipeline.reply(0);
    for (std::size_t i = 0; i + 1 < facts.size(); i += 2) {
      if (facts[i].text() == "config-epoch") word.epoch = std::max(word.epoch, facts[i + 1].integer());
    }
    return word;
  }

  void check_role(Connection& connection) const {
    Pipeline pipeline(connection);
    pipeline.command("ROLE");
    pipeline.run();
    const std::string role(pipeline.reply(0)[0].text());
    if (role == "master") return;
    throw ConnectionError(connection.where() + ", named as master '" + name_ +
                          "' by the Sentinels, says that its role is " + escaped(role) +
                          "; a failover may be under way");
  }

  bool in_doubt() {
    const std::lock_guard lock(mutex_);
    return in_doubt_;
  }

  // Hears all: one that missed the last failover must not be the only one to be believed, whoever was heard first.
  void ask_around(Deadline deadline) {
    std::vector<Word> words;
    for (const Address& sentinel : preferred()) {
      if (Clock::now() >= deadline || has_ended()) break;
      try {
        words.push_back(ask(*open(sentinel)));
        hear(words.back());
      } catch (const Error&) {  // connect_by() meets the same, and tells
        prefer(sentinel, false);
      }
    }
    if (words.empty()) return;
    const Word& newest = *std::max_element(words.begin(), words.end(), older);
    const auto same = [&](const Word& word) { return agree(word, newest); };
    const auto votes = static_cast<std::size_t>(std::count_if(words.begin(), words.end(), same));
    const std::lock_guard lock(mutex_);
    const bool leads_back = is_behind(newest, known_);
    if (!leads_back || goes_back(newest, votes)) know(newest);
    in_doubt_ = leads_back || !most(words.size());
  }

  bool most(std::size_t count) const { return 2 * count > all_.size(); }

  // Sentinels that were set up anew count their epochs from the beginning. But some that are behind may be most of those
  // in the URL, until they hear of the failover: that takes less than kGoesBack. To be called with the lock held.
  bool goes_back(const Word& word, std::size_t votes) {
    if (!most(votes)) return false;
    if (!agree(word, back_)) {
      back_ = word;
      back_since_ = Clock::now();
    }
    return Clock::now() - back_since_ >= kGoesBack;
  }

  void hear(const Word& word) {
    const std::lock_guard lock(mutex_);
    if (older(known_, word)) know(word);
  }

  // Sentinels do not hear of a failover at the same moment: what is known already may be newer.
  Word newer(const Word& heard) {
    const std::lock_guard lock(mutex_);
    if (older(heard, known_)) return known_;
    back_ = {};
    return heard;
  }

  void use(const Word& word, Connection& connection) {
    const std::lock_guard lock(mutex_);
    if (is_behind(word, known_)) {
      throw ConnectionError(connection.where() + " has just been replaced as master '" + name_ + "' by " +
                            known_.master.text());
    }
    if (older(known_, word) || !agree(word, known_)) know(word);
    shutdown_handles_.emplace_back(word.master.text(), connection.shutdown_handle());
  }

  void doubt(const Word& word) {
    const std::lock_guard lock(mutex_);
    if (agree(word, known_)) in_doubt_ = true;
  }

  // The one that led to the master is asked first the next time, one that did not, last.
  void prefer(const Address& sentinel, bool first) {
    const std::lock_guard lock(mutex_);
    const auto goes_before = [&](const Address& other) { return (other.text() == sentinel.text()) == first; };
    std::stable_partition(preferred_.begin(), preferred_.end(), goes_before);
  }

  // ---- Following ----

  void follow() {
    const Interrupt::Scope until(interrupt_);
    std::size_t next = 0;
    milliseconds pause{0};
    Deadline doubts = Clock::now() + kLook;  // the first are those of connect()
    while (!has_ended(pause)) {
      try {
        const bool refused = pause == kRefused;
        pause = milliseconds(0);
        if (!refused && in_doubt() && Clock::now() >= doubts) {
          doubts = Clock::now() + kLook;
          ask_around(Clock::now() + options_.connect_timeout);
          if (has_ended()) return;
        }
        listen(all_[next++ % all_.size()]);
      } catch (const AccessError&) {
        pause = kRefused;
      } catch (const std::exception&) {  // connect() asks the same, and tells
        pause = next % all_.size() == 0 ? kLook : kNextSentinel;
      }
    }
  }

  // Hears what one Sentinel has to say for a while, or until its link breaks or others know better.
  void listen(const Address& sentinel) {
    const auto news = open(sentinel);
    const auto asked = open(sentinel);
    {
      const std::lock_guard lock(mutex_);
      listening_ = {news->shutdown_handle(), asked->shutdown_handle()};
      if (ended_) return;
    }
    std::string subscribe;
    append_command(subscribe, {"SUBSCRIBE", "+switch-master"});
    news->write(subscribe);
    for (const Deadline until = Clock::now() + kOneSentinel; Clock::now() < until;) {
      heard(ask(*asked), sentinel);
      news->read_until(Clock::now() + kLook);  // whatever it says: we look
    }
  }

  void heard(const Word& word, const Address& sentinel) {
    const std::lock_guard lock(mutex_);
    if (is_behind(word, known_)) {
      in_doubt_ = true;  // who of the two?
      throw ConnectionError(sentinel.text() + " is behind the other Sentinels");
    }
    know(word);
  }

  // Connections to other masters end. To be called with the lock held.
  void know(const Word& word) {
    known_ = word;
    back_ = {};
    for (const auto& [address, weak] : shutdown_handles_) {
      const auto shutdown_handle = weak.lock();
      if (shutdown_handle != nullptr && address != word.master.text()) shutdown_handle->cut();
    }
    const auto ended = [](const auto& shutdown_handle) { return shutdown_handle.second.expired(); };
    shutdown_handles_.erase(std::remove_if(shutdown_handles_.begin(), shutdown_handles_.end(), ended),
                            shutdown_handles_.end());
  }

  bool has_ended(milliseconds pause = {}) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, pause, [this] { return ended_; });
  }

  const std::string name_;
  const std::string where_;
  const Login login_;
  const ConnectionOptions options_;
  const Login sentinel_login_;
  const ConnectionOptions sentinel_options_;
  const bool tls_;  // of the data nodes
  const std::vector<Address> all_;

  std::mutex mutex_;  // guards the rest
  std::condition_variable changed_;
  std::vector<Address> preferred_;  // the one that led to the master last comes first
  Word known_;                      // the newest that was heard
  Word back_;                       // what most have said lately, though it is older
  Clock::time_point back_since_;
  bool in_doubt_ = true;  // about known_: all are to be asked
  std::vector<std::pair<std::string, std::weak_ptr<ShutdownHandle>>>
      shutdown_handles_;  // of connections to masters, by address
  std::vector<std::shared_ptr<ShutdownHandle>> listening_;
  bool ended_ = false;
  Interrupt interrupt_;  // of thread_
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Topology> sentinels(const Url& url, const ConnectionOptions& options) {
  return std::make_unique<SentinelTopology>(url, options);
}

}  // namespace delayqueue::redis
