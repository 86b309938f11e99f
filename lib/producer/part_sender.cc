#include "producer/part_sender.h"

#include "redis/reply.h"

#include <algorithm>
#include <future>
#include <iterator>
#include <string_view>
#include <system_error>
#include <utility>

namespace delayqueue {
namespace {

constexpr int kMostMoves = 8;  // of a message

// Lets the next call have threads.
class EndOfThreads {
 public:
  explicit EndOfThreads(std::atomic<bool>& has_threads) : has_threads_(has_threads) {}
  ~EndOfThreads() { has_threads_ = false; }
  EndOfThreads(const EndOfThreads&) = delete;
  EndOfThreads& operator=(const EndOfThreads&) = delete;

 private:
  std::atomic<bool>& has_threads_;
};

bool has(const Error& e, std::string_view part) {
  return std::string_view(e.what()).find(part) != std::string_view::npos;
}

// Whether Redis has refused a command within a script, which may have stored messages before it. So they must not be
// sent elsewhere. Without a right to the keys Redis does not run the script.
bool is_in_script(const AccessDenied& e) {
  return has(e, "executing the script can't") || has(e, "ACL failure in script");  // Redis 6.2 and 7.0; 7.2 and later
}

}  // namespace

PartSender::PartSender(Partitions partitions, std::uint16_t name_crc, CircuitBreaker& breaker, MarkerForwarder& markers)
    : partitions_(std::move(partitions)), name_crc_(name_crc), breaker_(breaker), markers_(markers), turns_(breaker) {}

void PartSender::choose_partition(Part& part) { assign(part, turns_.choose(part.places.size(), partitions_.count())); }

// Gives the messages of a part new ids of this partition.
void PartSender::assign(Part& part, unsigned number) const {
  std::vector<std::string> ids = store::new_ids(part.places.size(), {name_crc_, static_cast<std::uint8_t>(number)});
  part.partition = number;
  for (std::size_t i = 0; i < ids.size(); ++i) part.request.sent[i].id = std::move(ids[i]);
}

void PartSender::send(std::vector<Part> parts) {
  while (!parts.empty()) {
    const unsigned first = parts.front().partition;
    const auto turn_of = [first](const Part& part) { return (part.partition - first) % store::kMostPartitions; };
    std::stable_sort(parts.begin(), parts.end(), [&](const Part& a, const Part& b) { return turn_of(a) < turn_of(b); });
    parts = send_round(std::move(parts));
  }
}

// Sends the parts once, to several servers at the same time if that is worth threads. One call at a time does so: if
// several calls are under way, they keep all servers busy without, and more requests would only wait at the servers.
// Returns the parts that go to another partition.
std::vector<Part> PartSender::send_round(std::vector<Part> parts) {
  const bool one_request = parts.front().whole == parts.back().whole;  // send_async() sends several
  if (parts.size() == 1 || !one_request) return send_in_turn(parts);
  const std::vector<std::string> servers = servers_of(parts);
  const std::set<std::string> with_thread = worth_threads(parts, servers);
  if (with_thread.empty() || has_threads_.exchange(true)) return send_in_turn(parts);
  const EndOfThreads end(has_threads_);
  std::vector<Part> here;
  std::map<std::string, std::vector<Part>> apart;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    (with_thread.count(servers[i]) > 0 ? apart[servers[i]] : here).push_back(std::move(parts[i]));
  }
  return send_in_threads(here, apart);
}

// `here`: what the calling thread sends. It also sends for the threads that the system refuses.
std::vector<Part> PartSender::send_in_threads(std::vector<Part>& here,
                                              std::map<std::string, std::vector<Part>>& apart) {
  std::vector<std::future<std::vector<Part>>> threads;
  std::vector<std::vector<Part>*> refused;
  for (auto& server : apart) {
    std::vector<Part>& parts = server.second;
    try {
      threads.push_back(std::async(std::launch::async, [this, &parts] { return send_in_turn(parts); }));
    } catch (const std::system_error&) {
      refused.push_back(&parts);
    }
  }
  std::vector<Part> moved = send_in_turn(here);
  const auto add = [&](std::vector<Part> more) { std::move(more.begin(), more.end(), std::back_inserter(moved)); };
  for (std::vector<Part>* const parts : refused) add(send_in_turn(*parts));
  for (auto& thread : threads) add(thread.get());
  return moved;
}

// The server of each part. It is asked for once for each partition, so that the parts of one stay together while its
// slot moves.
std::vector<std::string> PartSender::servers_of(const std::vector<Part>& parts) const {
  std::vector<std::string> servers;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool is_same = i > 0 && parts[i].partition == parts[i - 1].partition;
    servers.push_back(is_same ? servers.back() : partitions_.at(parts[i].partition).connection.endpoint().server());
  }
  return servers;
}

// The servers that get enough of these parts to be worth a thread; less one for the calling thread, if it would have
// nothing else to do.
std::set<std::string> PartSender::worth_threads(const std::vector<Part>& parts,
                                                const std::vector<std::string>& servers) {
  struct Load {
    std::size_t messages = 0;
    std::size_t bytes = 0;
  };
  std::map<std::string, Load> loads;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    loads[servers[i]].messages += parts[i].places.size();
    loads[servers[i]].bytes += parts[i].bytes;
  }
  std::set<std::string> worth;
  for (const auto& [server, load] : loads) {
    if (load.messages >= store::kBatch || load.bytes >= Part::kMostBytes) worth.insert(server);
  }
  if (worth.size() == loads.size()) worth.erase(servers.front());
  return worth;
}

// Sends to one partition after the other, in the order of the parts: threads that all began with the partitions of the
// same server would meet there. Returns the parts that go to another partition.
std::vector<Part> PartSender::send_in_turn(std::vector<Part>& parts) {
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
void PartSender::finish(Part& part) {
  SendRequest& whole = *part.whole;
  for (std::size_t i = 0; i < part.places.size(); ++i) whole.sent[part.places[i]] = std::move(part.request.sent[i]);
  if (part.request.error == nullptr) return;
  const std::lock_guard lock(errors_mutex_);
  whole.fail(part.request.error);
}

bool PartSender::has_failed(const Part& part) {
  const std::lock_guard lock(errors_mutex_);
  return part.whole->error != nullptr;
}

// Sends parts to this partition. The rest of a request that has failed is not sent.
void PartSender::send_together(unsigned number, std::vector<Part>& parts) {
  std::vector<Part*> sent;
  std::vector<SendRequest> requests;
  bool may_leave = partitions_.count() > 1;
  for (Part& part : parts) {
    if (has_failed(part)) continue;
    may_leave = may_leave && part.spreads && !part.waits;
    sent.push_back(&part);
    requests.push_back(std::move(part.request));
  }
  if (requests.empty()) return;
  ProducerPartition& to = partitions_.at(number);
  may_leave = may_leave && !to.connection.endpoint().server().empty();  // there may be others
  try {
    to.commit().send(requests, may_leave ? GroupCommit::Elsewhere::yes : GroupCommit::Elsewhere::no);
  } catch (...) {  // nothing was sent
    const std::exception_ptr error = std::current_exception();
    for (SendRequest& request : requests) request.fail(redis::copy_of(error));
  }
  turns_.go_on_from(number, partitions_.count());
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i]->request = std::move(requests[i]);
}

// If the circuit breaker no longer allows the partition of the part, because an earlier part has failed, gives the part
// to a partition that is allowed. Returns whether it did.
bool PartSender::leave(Part& part) {
  if (!part.spreads || part.waits || part.moves >= kMostMoves || has_failed(part)) return false;
  if (breaker_.allows(part.partition)) return false;
  const unsigned next = turns_.choose(part.places.size(), partitions_.count());
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
bool PartSender::move(Part& part) {
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
std::optional<unsigned> PartSender::next_for(Part& part) {
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
    const unsigned next = turns_.choose(part.places.size(), partitions_.count());
    part.waits = !has_others || part.moves >= kMostMoves || !breaker_.allows(next);
    if (!part.waits || request.withdrawn) return next;
  } catch (...) {
  }
  return std::nullopt;
}

}  // namespace delayqueue
