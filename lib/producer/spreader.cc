#include "producer/spreader.h"

#include "redis/reply.h"

#include <algorithm>
#include <future>
#include <iterator>
#include <string_view>
#include <utility>

namespace delayqueue {
namespace {

constexpr std::size_t kPartBytes = 256 * 1024;  // of payloads and headers
constexpr int kMostMoves = 8;                   // of a message
constexpr int kThreadsOfFirst = 4;              // that send at once, before the second connection is used

bool has(const Error& e, std::string_view part) {
  return std::string_view(e.what()).find(part) != std::string_view::npos;
}

// Whether Redis has refused a command within a script, which may have stored messages before it. So they must not be
// sent elsewhere. Without a right to the keys Redis does not run the script.
bool is_in_script(const AccessDenied& e) {
  return has(e, "executing the script can't") || has(e, "ACL failure in script");  // Redis 6.2 and 7.0; 7.2 and later
}

// The outcome of a reschedule, and the marker that it may have left in its partition.
struct Rescheduled {
  std::string outcome;
  std::optional<std::string> marker;
};

struct RescheduleAnswer {
  redis::Answer<std::string> outcome;
  std::optional<redis::Answer<std::optional<std::string>>> marker;

  Rescheduled get() const {
    Rescheduled all{outcome.get(), std::nullopt};
    try {
      if (marker) all.marker = marker->get();
    } catch (const Error&) {  // the user may not take it
    }
    return all;
  }
};

}  // namespace

// Messages of one request that go to the same partition.
struct Spreader::Part {
  SendRequest* whole = nullptr;  // that it is a part of
  bool spreads = false;          // to any partition; else to the one of the ids
  unsigned partition = 0;
  SendRequest request{};
  std::vector<std::size_t> places{};  // of its messages in the whole request
  std::size_t bytes = 0;
  int moves = 0;       // to another partition
  bool waits = false;  // it stays where it is, also if the server does not answer

  bool has_room(std::size_t size) const {
    return !spreads || (places.size() < store::kBatch && bytes + size <= kPartBytes);
  }

  void add(std::size_t place) {
    const PendingMessage& message = whole->messages[place];
    request.messages.push_back(message);
    request.sent.push_back({whole->sent[place].id, false});
    places.push_back(place);
    bytes += message.size();
  }
};

Spreader::Partition::Partition(const std::string& url, const std::string& queue, const ProducerOptions& options,
                               GroupCommit::Hooks hooks)
    : connection(url, queue, options.connection, options.queue, options.durability),
      first_(connection, options.busy_wait, hooks, answered_),
      second_connection_(connection, 0),
      second_(second_connection_, options.busy_wait, std::move(hooks), answered_) {}

Spreader::Partition::Partition(const SharedConnection& home, unsigned number, std::chrono::microseconds busy_wait,
                               GroupCommit::Hooks hooks)
    : connection(home, number),
      first_(connection, busy_wait, hooks, answered_),
      second_connection_(home, number),
      second_(second_connection_, busy_wait, std::move(hooks), answered_) {}

GroupCommit& Spreader::Partition::commit() {
  const int threads = first_.threads();
  const bool use_second = threads >= kThreadsOfFirst && threads > second_.threads() && answered_.batches > 0;
  return use_second ? second_ : first_;
}

Spreader::Spreader(const std::string& url, const std::string& queue, const ProducerOptions& options,
                   const EventSink& sink)
    : busy_wait_(options.busy_wait),
      name_crc_(store::name_crc(queue, options.queue.prefix)),
      has_one_partition_(options.queue.go.bodies_under_dp),
      home_(url, queue, options, hooks(0)),
      keeper_(queue, home_.connection.endpoint().key_options(),
              [this](unsigned number, const auto& call) {
                partition(number).connection.with_connection([&](redis::Connection& connection) { call(connection); });
              }),
      turns_(breaker_),
      markers_(home_.connection, breaker_),
      breaker_({[this](unsigned number) { return partition(number).connection.endpoint().server(); },
                [this](unsigned number) { return probe(number); }},
               sink) {}

Spreader::~Spreader() = default;

// ---- The partitions -------------------------------------------------------------------------------------------------

Spreader::Partition& Spreader::partition(unsigned number) {
  if (number == 0) return home_;
  const std::lock_guard lock(partitions_mutex_);
  const auto found = partitions_.find(number);
  if (found != partitions_.end()) return found->second;
  return partitions_.try_emplace(number, home_.connection, number, busy_wait_, hooks(number)).first->second;
}

// Partitions 0 and 1 have the copies of the layout that count.
GroupCommit::Hooks Spreader::hooks(unsigned number) {
  GroupCommit::Hooks hooks;
  hooks.prepare = [this, number](redis::Connection& connection) { prepare(number, connection); };
  if (number <= 1) hooks.on_layout = [this, number](const store::Layout& copy) { keeper_.remember(number, copy); };
  if (number > 0) hooks.on_marker = [this, number](std::string due) { markers_.add(number, std::move(due)); };
  return hooks;
}

// The number of partitions that messages are sent to.
unsigned Spreader::count() const { return has_one_partition_ ? 1 : keeper_.partitions(); }

// The queue has the partitions that partition 0 tells. If that has lost its copy, messages go to partition 0 until
// another client has restored it, and consumers serve that partition in any case. So a queue without partitions needs
// no other server.
void Spreader::read_first_layout() {
  try {
    read_copy(0);
  } catch (const ConnectionError&) {
    if (has_one_partition_ || home_.connection.endpoint().server().empty()) throw;
    try {
      read_copy(1);  // may be on another server
    } catch (const Error&) {
    }
    if (count() == 1) throw;
  }
  knows_layout_ = true;
}

void Spreader::read_copy(unsigned number) {
  Partition& read = partition(number);
  read.connection.with_connection([](redis::Connection&) {});  // which reads it when it verifies the queue
  keeper_.remember(number, read.connection.endpoint().layout());
  read.has_copy = true;
}

// Before a partition is used: by their copies of the layout, partitions can be told from other queues.
void Spreader::prepare(unsigned number, redis::Connection& connection) {
  if (number == 0 && count() == 1) return;
  if (Partition& used = partition(number); !used.has_copy.exchange(true)) {
    keeper_.remember(number, used.connection.endpoint().layout());
  }
  try {
    keeper_.copy_to(number, connection);
  } catch (const ReplyError&) {
    if (number > 0) throw;  // partition 0 can be used without
  }
}

// The first key exists, and the second one never does: so this is refused as the moves are while the slot migrates.
CircuitBreaker::Probe Spreader::probe(unsigned number) {
  try {
    Endpoint& endpoint = partition(number).connection.endpoint();
    const auto connection = endpoint.connect();
    redis::Pipeline pipeline(*connection);
    pipeline.command("EXISTS").key(endpoint.keys().settings).key(endpoint.keys().staged, "probe");
    pipeline.run();
    pipeline.reply(0);
    return CircuitBreaker::Probe::succeeded;
  } catch (const redis::SlotUnavailable&) {
    return CircuitBreaker::Probe::refused;
  } catch (const ConnectionError&) {
    return CircuitBreaker::Probe::failed;
  } catch (const std::exception&) {
    return CircuitBreaker::Probe::refused;
  }
}

unsigned Spreader::named_by(const std::string& id) const {
  return has_one_partition_ ? 0 : store::partition_of(id, name_crc_).value_or(0);
}

unsigned Spreader::partition_of(const std::string& id) {
  return named_by(id) == 0 ? 0 : keeper_.partitions_of({id}).front();
}

SharedConnection& Spreader::connection_of(const std::string& id) {
  const unsigned named = named_by(id);
  return partition(named < keeper_.known().top ? named : 0).connection;
}

// ---- Calls by id ----------------------------------------------------------------------------------------------------

std::string Spreader::cancel(const std::string& id) {
  SharedConnection& connection = partition(partition_of(id)).connection;
  return connection.ask([&](redis::Pipeline& pipeline) { return connection.store().cancel(pipeline, id); },
                        [](const std::string& state) { return state != "unknown" && state != "unack"; });
}

std::string Spreader::reschedule(const std::string& id, const store::Due& due) {
  const unsigned number = partition_of(id);
  SharedConnection& connection = partition(number).connection;
  const auto add = [&](redis::Pipeline& pipeline) {
    RescheduleAnswer answers{connection.store().reschedule(pipeline, id, due), std::nullopt};
    if (number > 0) answers.marker = connection.store().take_marker(pipeline);
    return answers;
  };
  Rescheduled answer = connection.ask(add, [](const Rescheduled& done) { return done.outcome == "moved"; });
  if (answer.marker) {
    markers_.add(number, std::move(*answer.marker));
    markers_.forward();
  }
  return answer.outcome;
}

// ---- Sending --------------------------------------------------------------------------------------------------------

std::string Spreader::new_id() const { return std::move(store::new_ids(1, {name_crc_, 0}).front()); }

void Spreader::send(std::vector<SendRequest>& requests) {
  try {
    if (!knows_layout_) read_first_layout();
  } catch (...) {
    for (SendRequest& request : requests) fail(request, std::current_exception());
    return;
  }
  if (count() > 1 || !all_at_home(requests)) return send_parts(parts_of(requests));
  for (SendRequest& request : requests) add_ids(request);
  home_.commit().send(requests);
}

bool Spreader::all_at_home(const std::vector<SendRequest>& requests) const {
  return std::all_of(requests.begin(), requests.end(), [&](const SendRequest& request) {
    for (std::size_t i = 0; i < request.messages.size(); ++i) {
      if (!request.messages[i].terms->fresh && named_by(request.sent[i].id) != 0) return false;
    }
    return true;
  });
}

// Nothing of the request was sent.
void Spreader::fail(SendRequest& request, const std::exception_ptr& error) const {
  add_ids(request);  // which the caller needs to repeat the send
  request.fail(copy_of(error));
}

// Ids of partition 0, for the messages that have none.
void Spreader::add_ids(SendRequest& request) const {
  const auto lacks_id = [](const Sent& one) { return one.id.empty(); };
  const auto count = std::count_if(request.sent.begin(), request.sent.end(), lacks_id);
  std::vector<std::string> ids = store::new_ids(static_cast<std::size_t>(count), {name_crc_, 0});
  auto next = ids.begin();
  for (Sent& one : request.sent) {
    if (one.id.empty()) one.id = std::move(*next++);
  }
}

// Fails the requests that have an id whose partition cannot be told, and no others.
std::vector<Spreader::Part> Spreader::parts_of(std::vector<SendRequest>& requests) {
  std::vector<Part> parts;
  for (SendRequest& request : requests) {
    try {
      std::vector<Part> of_request = parts_of(request);
      std::move(of_request.begin(), of_request.end(), std::back_inserter(parts));
    } catch (...) {
      fail(request, std::current_exception());
    }
  }
  return parts;
}

// Does not change the request.
std::vector<Spreader::Part> Spreader::parts_of(SendRequest& whole) {
  std::vector<Part> parts;
  for (std::size_t i = 0; i < whole.messages.size(); ++i) {
    const PendingMessage& message = whole.messages[i];
    const bool spreads = message.terms->fresh;
    const unsigned partition = spreads ? 0 : partition_of(whole.sent[i].id);
    const auto latest = std::find_if(parts.rbegin(), parts.rend(), [&](const Part& part) {
      return part.spreads == spreads && part.partition == partition;
    });
    if (latest != parts.rend() && latest->has_room(message.size())) {
      latest->add(i);
    } else {
      parts.push_back({&whole, spreads, partition});
      parts.back().request.bodies_first = whole.bodies_first;
      parts.back().add(i);
    }
  }
  for (Part& part : parts) {
    if (part.spreads) assign(part, turns_.choose(part.places.size(), count()));
  }
  return parts;
}

// Gives the messages of a part new ids of this partition.
void Spreader::assign(Part& part, unsigned number) const {
  std::vector<std::string> ids = store::new_ids(part.places.size(), {name_crc_, static_cast<std::uint8_t>(number)});
  part.partition = number;
  for (std::size_t i = 0; i < ids.size(); ++i) part.request.sent[i].id = std::move(ids[i]);
}

void Spreader::send_parts(std::vector<Part> parts) {
  while (!parts.empty()) parts = send_to_servers(by_server(std::move(parts)));
}

// The parts of each server, in the order in which it gets them.
std::vector<std::vector<Spreader::Part>> Spreader::by_server(std::vector<Part> parts) {
  const unsigned first = parts.front().partition;
  const auto turn_of = [first](const Part& part) { return (part.partition - first) % store::kMostPartitions; };
  std::stable_sort(parts.begin(), parts.end(), [&](const Part& a, const Part& b) { return turn_of(a) < turn_of(b); });
  std::map<std::string, std::vector<Part>> servers;
  for (Part& part : parts) servers[partition(part.partition).connection.endpoint().server()].push_back(std::move(part));
  std::vector<std::vector<Part>> all;
  for (auto& [server, its_parts] : servers) all.push_back(std::move(its_parts));
  return all;
}

// Sends to several servers at the same time, if each gets enough to be worth a thread. Returns the parts that go to
// another partition.
std::vector<Spreader::Part> Spreader::send_to_servers(std::vector<std::vector<Part>> servers) {
  std::vector<std::future<std::vector<Part>>> others;  // if a thread is refused, get() does its work
  std::vector<std::vector<Part>*> here;
  for (std::vector<Part>& parts : servers) {
    if (&parts == &servers.front() || !is_worth_thread(parts)) {
      here.push_back(&parts);
    } else {
      // By reference: libstdc++ moves the function before the thread is refused, and calls it afterwards.
      others.push_back(std::async([this, &parts] { return send_in_turn(parts); }));
    }
  }
  std::vector<Part> moved;
  const auto add = [&](std::vector<Part> parts) { std::move(parts.begin(), parts.end(), std::back_inserter(moved)); };
  for (std::vector<Part>* const parts : here) add(send_in_turn(*parts));
  for (auto& other : others) add(other.get());
  return moved;
}

bool Spreader::is_worth_thread(const std::vector<Part>& parts) {
  std::size_t messages = 0, bytes = 0;
  for (const Part& part : parts) {
    messages += part.places.size();
    bytes += part.bytes;
  }
  return messages >= store::kBatch || bytes >= kPartBytes;
}

// Sends to one partition after the other. Returns the parts that go to another one.
std::vector<Spreader::Part> Spreader::send_in_turn(std::vector<Part>& parts) {
  std::vector<Part> moved;
  for (auto next = parts.begin(); next != parts.end();) {
    const unsigned number = next->partition;
    std::vector<Part> together;
    for (; next != parts.end() && next->partition == number; ++next) {
      (leave(*next) ? moved : together).push_back(std::move(*next));
    }
    send_together(number, together);
    for (Part& part : together) {
      if (move(part)) {
        moved.push_back(std::move(part));
      } else {
        finish(part);
      }
    }
    markers_.forward();
  }
  return moved;
}

// Gives ids and results to the whole request.
void Spreader::finish(Part& part) {
  SendRequest& whole = *part.whole;
  for (std::size_t i = 0; i < part.places.size(); ++i) whole.sent[part.places[i]] = std::move(part.request.sent[i]);
  if (part.request.error == nullptr) return;
  const std::lock_guard lock(errors_mutex_);
  whole.fail(part.request.error);
}

bool Spreader::has_failed(const Part& part) {
  const std::lock_guard lock(errors_mutex_);
  return part.whole->error != nullptr;
}

// Sends parts to this partition. The rest of a request that has failed is not sent.
void Spreader::send_together(unsigned number, std::vector<Part>& parts) {
  std::vector<Part*> sent;
  std::vector<SendRequest> requests;
  bool may_leave = count() > 1;
  for (Part& part : parts) {
    if (has_failed(part)) continue;
    may_leave = may_leave && part.spreads && !part.waits;
    sent.push_back(&part);
    requests.push_back(std::move(part.request));
  }
  if (requests.empty()) return;
  Partition& to = partition(number);
  may_leave = may_leave && !to.connection.endpoint().server().empty();  // there may be others
  try {
    to.commit().send(requests, may_leave ? GroupCommit::Elsewhere::yes : GroupCommit::Elsewhere::no);
  } catch (...) {  // nothing was sent
    const std::exception_ptr error = std::current_exception();
    for (SendRequest& request : requests) request.fail(copy_of(error));
  }
  turns_.go_on_from(number, count());
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i]->request = std::move(requests[i]);
}

// If the circuit breaker no longer allows the partition of the part, because an earlier part has failed, gives the part
// to a partition that is allowed. Returns whether it did.
bool Spreader::leave(Part& part) {
  if (!part.spreads || part.waits || part.moves >= kMostMoves || has_failed(part)) return false;
  if (breaker_.allows(part.partition)) return false;
  const unsigned next = turns_.choose(part.places.size(), count());
  if (!breaker_.allows(next)) return false;
  try {
    assign(part, next);
  } catch (const Error&) {  // no random bytes
    return false;
  }
  ++part.moves;
  moved_ += part.places.size();
  return true;
}

// If the part has failed, and nothing of it was or may have been stored, gives it to another partition. Returns whether
// it did.
bool Spreader::move(Part& part) {
  const auto next = next_for(part);
  if (!next) return false;
  SendRequest again;
  again.messages = std::move(part.request.messages);
  again.bodies_first = part.request.bodies_first;
  again.sent.resize(again.messages.size());
  part.request = std::move(again);
  try {
    assign(part, *next);
  } catch (const Error&) {  // no random bytes
    part.request.error = std::current_exception();
    return false;
  }
  ++part.moves;
  moved_ += part.places.size();
  return true;
}

// The partition to which the part is moved; none: its result stays. Tells the circuit breaker of failures.
std::optional<unsigned> Spreader::next_for(Part& part) {
  const SendRequest& request = part.request;
  if (request.error == nullptr || has_failed(part)) return std::nullopt;
  try {
    std::rethrow_exception(request.error);
  } catch (const AccessDenied& e) {
    if (part.partition == 0 || is_in_script(e)) return std::nullopt;
    breaker_.access_denied(part.partition, e.what());
    if (part.spreads && !request.stored) return 0;
  } catch (const ConnectionError& e) {
    bool has_others = true;
    if (dynamic_cast<const redis::SlotUnavailable*>(&e) != nullptr) {
      breaker_.partition_failed(part.partition, e.what());  // other partitions of the server can be used
    } else {
      has_others = breaker_.server_failed(part.partition, e.what());
    }
    if (!part.spreads || request.written > 0) return std::nullopt;
    const unsigned next = turns_.choose(part.places.size(), count());
    part.waits = !has_others || part.moves >= kMostMoves || !breaker_.allows(next);
    if (!part.waits || request.withdrawn) return next;
  } catch (...) {
  }
  return std::nullopt;
}

}  // namespace delayqueue
