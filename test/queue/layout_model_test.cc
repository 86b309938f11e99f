// Random changes of a layout by several clients on a real Redis: operators that set numbers, also two at once, and that
// die; senders that use partitions; copies that are lost or rolled back; partitions out of reach. After every step the
// promises are checked.
//
// DELAYQUEUE_SEEDS=n runs n sequences; DELAYQUEUE_SEED=n runs only sequence n.
#include "support/test.h"

#include "queue/layout_keeper.h"
#include "support/model_runs.h"

namespace delayqueue {
namespace {

using store::Layout;
using test::redis;
using test::model::demand;

constexpr std::int64_t kFuture = 5'000'000'000'000'000;  // us; generations of a clock that has since been set back
constexpr const char* kFields[] = {"generation", "partitions", "top"};

std::string to_text(const Layout& layout) {
  return std::to_string(layout.generation) + " " + std::to_string(layout.partitions) + " " + std::to_string(layout.top);
}

struct ProcessEnds : std::runtime_error {
  ProcessEnds() : std::runtime_error("the process ends") {}
};

class Play {
 public:
  Play(std::uint64_t seed, redis::Connection& connection)
      : queue_(test::fresh_queue()), random_(seed), connection_(connection), clients_(kClients), tops_(kClients) {
    if (seed % 2 == 0) {
      for (const unsigned copy : {0U, 1U}) write(copy, {std::to_string(kFuture), "1", "1"});
    }
    for (std::size_t i = 0; i < kClients; ++i) restart(i);
    remember_copies();
  }

  ~Play() { redis().cmd({"DEL", settings(0), settings(1)}); }
  Play(const Play&) = delete;
  Play& operator=(const Play&) = delete;

  void step() {
    struct Kind {
      std::size_t weight;
      void (Play::*act)();
    };
    static constexpr Kind kKinds[] = {{10, &Play::read},       {10, &Play::use},      {8, &Play::set},
                                      {6, &Play::reach},       {4, &Play::lose_copy}, {4, &Play::roll_back},
                                      {3, &Play::restart_one}, {4, &Play::set_both},  {3, &Play::fail_over}};
    (this->*random_.weighted(kKinds).act)();
    check();
    remember_copies();
  }

  // All clients that read get the same layout in the end.
  void converge() {
    away_.clear();
    for (int round = 0; round < 2; ++round) {
      for (const auto& client : clients_) client->read();
    }
    const Layout last = clients_[0]->known();
    for (const auto& client : clients_) {
      demand(client->known() == last, "clients disagree: " + to_text(client->known()) + ", " + to_text(last));
    }
    for (const unsigned copy : {0U, 1U}) {
      demand(stored(copy) == last, "copy " + std::to_string(copy) + " is behind: " + to_text(stored(copy)));
    }
    demand(last.top >= used_, "a partition in use is lost");
  }

  const std::vector<std::string>& log() const { return log_; }

 private:
  static constexpr std::size_t kClients = 4;
  using Fields = std::vector<std::string>;  // empty: there is no copy

  std::string settings(unsigned copy) const { return store::make_keys(queue_, {}, copy).settings; }

  void write(unsigned copy, const Fields& fields) {
    redis().cmd({"DEL", settings(copy)});
    if (fields.empty()) return;
    redis().cmd({"HSET", settings(copy), kFields[0], fields[0], kFields[1], fields[1], kFields[2], fields[2]});
  }

  Fields fields(unsigned copy) const {
    const auto values = redis().cmd({"HMGET", settings(copy), kFields[0], kFields[1], kFields[2]});
    return values.array.at(2).nil() ? Fields() : values.strings();
  }

  // Without code of the library.
  Layout stored(unsigned copy) const {
    const Fields all = fields(copy);
    if (all.empty()) return {};
    return {std::stoll(all[0]), static_cast<unsigned>(std::stoul(all[1])), static_cast<unsigned>(std::stoul(all[2]))};
  }

  void call(unsigned partition, const std::function<void(redis::Connection&)>& work) {
    if (interruption_ && calls_left_-- == 0) std::exchange(interruption_, nullptr)();
    if (away_.count(partition) > 0) throw ConnectionError("partition " + std::to_string(partition) + " is away");
    work(connection_);
  }

  // Sets a number, with an interruption before one of the calls for it. Unset: it is in doubt, or the process has
  // ended.
  std::optional<Layout> interrupted_set(std::size_t client, unsigned number, std::function<void()> interruption) {
    calls_left_ = random_.below(8);
    interruption_ = std::move(interruption);
    log("client " + std::to_string(client) + " sets " + std::to_string(number));
    std::optional<Layout> layout;
    try {
      layout = clients_[client]->set(number);
      damaged_.reset();
      log("  " + to_text(*layout));
      demand(stored(0) == *layout && stored(1) == *layout, "a number that was set is not in both copies");
    } catch (const ConnectionError&) {
      log("  in doubt");
      if (random_.one_in(2)) send(client, clients_[client]->known().partitions - 1);
    } catch (const ProcessEnds&) {
      log("  its process ends");
      restart(client);
    }
    interruption_ = nullptr;
    return layout;
  }

  void send(std::size_t client, unsigned partition) {
    used_ = std::max(used_, partition + 1);
    log("client " + std::to_string(client) + " sends to partition " + std::to_string(partition));
  }

  void restart(std::size_t client) {
    clients_[client] = std::make_unique<LayoutKeeper>(
        queue_, store::KeyScheme(), [this](unsigned partition, const auto& work) { call(partition, work); });
    tops_[client] = 1;
  }

  std::size_t any() { return random_.below(kClients); }
  std::size_t another(std::size_t client) { return (client + 1 + random_.below(kClients - 1)) % kClients; }
  unsigned one_of_two() { return static_cast<unsigned>(random_.below(2)); }
  unsigned any_number() { return static_cast<unsigned>(random_.of({1, 2, 4, 8, 16, 32})); }
  void log(const std::string& what) { log_.push_back(what); }

  // ---- The steps ----

  void read() {
    const std::size_t client = any();
    try {
      const bool complete = clients_[client]->read();
      if (complete) damaged_.reset();
      log("client " + std::to_string(client) + (complete ? " reads " : " reads one copy: ") +
          to_text(clients_[client]->known()));
    } catch (const ConnectionError&) {
      log("client " + std::to_string(client) + " reads nothing");
    }
  }

  void use() {
    const std::size_t client = any();
    send(client, static_cast<unsigned>(random_.below(clients_[client]->known().partitions)));
  }

  void set() {
    const unsigned number = any_number();
    std::function<void()> interruption;
    if (random_.one_in(3)) interruption = [] { throw ProcessEnds(); };
    if (!interruption && random_.one_in(2)) interruption = [this] { away_ = {one_of_two()}; };
    const auto layout = interrupted_set(any(), number, interruption);
    demand(!layout || layout->partitions == number, "another number than the one that was set");
  }

  // Another operator sets a number between two calls of the first one.
  void set_both() {
    const std::size_t first = any();
    const std::size_t second = another(first);
    const unsigned numbers[] = {any_number(), any_number()};
    std::optional<Layout> of_second;
    const auto of_first = interrupted_set(first, numbers[0], [&] {
      log("  meanwhile client " + std::to_string(second) + " sets " + std::to_string(numbers[1]));
      of_second = clients_[second]->set(numbers[1]);
    });
    if (!of_first) return;
    const bool second_was_later = of_second && of_first->generation == of_second->generation;
    demand(of_first->partitions == numbers[second_was_later ? 1 : 0], "operators disagree");
    demand(!of_second || of_first->generation >= of_second->generation, "the later setting does not count");
  }

  // The server of partition 1 goes away while a number is set, and that of partition 0 loses it in a failover. Then
  // another operator sets a number.
  void fail_over() {
    if (damaged_ == 1U) return;
    away_.clear();
    const std::size_t first = any();
    const Fields before = fields(0);
    if (!interrupted_set(first, any_number(), [this] { away_ = {1}; })) {
      damaged_ = 0;
      write(0, before);
      log("copy 0 is rolled back to " + to_text(stored(0)));
    }
    away_.clear();
    const unsigned number = any_number();
    const auto layout = interrupted_set(another(first), number, nullptr);
    demand(layout && layout->partitions == number, "another number than the one that was set");
    converge();
    damaged_.reset();
  }

  void reach() {
    const unsigned partition = one_of_two();
    if (away_.erase(partition) == 0) away_ = {partition};
    log("partition " + std::to_string(partition) + (away_.empty() ? " is back" : " is away"));
  }

  // Only one copy is damaged until a client has read both: nothing can restore what both have lost at once.
  std::optional<unsigned> to_damage() {
    const unsigned copy = one_of_two();
    if (damaged_ && *damaged_ != copy) return std::nullopt;
    damaged_ = copy;
    return copy;
  }

  void lose_copy() {
    const auto copy = to_damage();
    if (!copy) return;
    write(*copy, {});
    log("copy " + std::to_string(*copy) + " is lost");
  }

  void roll_back() {
    const auto copy = to_damage();
    if (!copy) return;
    const std::vector<Fields>& past = past_[*copy];
    write(*copy, past[past.size() - 1 - random_.below(std::min<std::size_t>(past.size(), 5))]);
    log("copy " + std::to_string(*copy) + " is rolled back to " + to_text(stored(*copy)));
  }

  void restart_one() {
    const std::size_t client = any();
    restart(client);
    log("client " + std::to_string(client) + " restarts");
  }

  // ---- The promises ----

  void check() {
    const Layout copies[] = {stored(0), stored(1)};
    demand(std::max(copies[0].top, copies[1].top) >= used_, "a new client would not find a partition in use");
    for (const unsigned copy : {0U, 1U}) {
      demand(damaged_ || copies[copy].top >= used_, "one more loss would strand a partition in use");
    }
    for (std::size_t i = 0; i < kClients; ++i) {
      const Layout known = clients_[i]->known();
      demand(known.top >= tops_[i] && known.top >= known.partitions, "a client forgets partitions");
      tops_[i] = known.top;
    }
  }

  void remember_copies() {
    for (const unsigned copy : {0U, 1U}) past_[copy].push_back(fields(copy));
  }

  const std::string queue_;
  test::model::Random random_;
  redis::Connection& connection_;
  std::vector<std::unique_ptr<LayoutKeeper>> clients_;
  std::vector<unsigned> tops_;                    // that each client knew after the last step
  std::map<unsigned, std::vector<Fields>> past_;  // each copy after each step
  std::set<unsigned> away_;
  std::optional<unsigned> damaged_;     // the copy that was damaged since a client has last read both
  std::function<void()> interruption_;  // of a client that sets a number
  std::size_t calls_left_ = 0;          // until then
  unsigned used_ = 1;                   // partitions that a sender may have used
  std::vector<std::string> log_;
};

TEST_CASE("any sequence of changes of a layout: no partition in use is lost, operators and clients agree in the end") {
  redis::Connection connection = test::model::connect();
  test::model::for_seeds(150, [&](std::uint64_t seed) {
    test::model::play(Play(seed, connection), seed, [](Play& game) {
      for (int i = 0; i < 80; ++i) game.step();
      game.converge();
    });
  });
}

}  // namespace
}  // namespace delayqueue
