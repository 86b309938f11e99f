#include "chaos/ledger.h"

#include "store/keys.h"
#include "store/record.h"

namespace chaos {
namespace {

constexpr Us kInBuffers = 15'000'000;  // longer than any fault delays the reading of a socket

Kind kind_named(const std::string& name) { return task_of("- " + name + " 0").kind; }

bool starts(const std::string& text, const char* with) { return text.rfind(with, 0) == 0; }

}  // namespace

unsigned Message::partition() const {
  static const std::uint16_t crc = delayqueue::store::name_crc(kQueue, "dp");
  return old ? 0 : delayqueue::store::partition_of(id, crc).value_or(0);
}

const Call* Message::made() const {
  const auto last = std::find_if(sends.rbegin(), sends.rend(), [](const Call& call) { return call.created; });
  if (last != sends.rend()) return &*last;
  const auto first = std::find_if(sends.begin(), sends.end(), [](const Call& call) { return call.answer == "sent"; });
  return first == sends.end() ? nullptr : &*first;
}

Us Message::last_send() const {
  Us last = 0;
  for (const Call& call : sends) last = std::max(last, call.latest);
  return last;
}

bool Message::has_verdict(const char* verdict) const {
  return std::any_of(deliveries.begin(), deliveries.end(),
                     [&](const Delivery& delivery) { return delivery.verdict == verdict; });
}

bool Message::may_be_cancelled() const {
  return std::any_of(cancels.begin(), cancels.end(),
                     [](const Call& call) { return call.answer != "unknown" && call.answer != "refused"; });
}

Ledger::Ledger(const std::string& folder) {
  for (const std::string& path : journals_in(folder)) read(path);  // journals of producers come before those of workers
  sort();
}

const Message* Ledger::by_id(const std::string& id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &messages_[found->second];
}

std::vector<const Message*> Ledger::with_key(const std::string& key) const {
  std::vector<const Message*> found;
  const auto of_key = by_key_.find(key);
  if (of_key == by_key_.end()) return found;
  for (const std::size_t index : of_key->second) {
    if (messages_[index].made() != nullptr) found.push_back(&messages_[index]);
  }
  return found;
}

std::size_t Ledger::with_keys() const {
  std::size_t all = 0;
  for (const auto& [key, indexes] : by_key_) all += with_key(key).size();
  return all;
}

std::size_t Ledger::kept() const {
  return static_cast<std::size_t>(
      std::count_if(messages_.begin(), messages_.end(), [](const Message& one) { return one.kept.has_value(); }));
}

bool Ledger::in_window(const Message& message, Us from, Us to) const {
  return std::any_of(windows_.begin(), windows_.end(), [&](const Window& window) {
    const bool concerned = window.partitions.empty() || window.partitions.count(message.partition()) > 0;
    return concerned && from <= window.to && to >= window.from;
  });
}

void Ledger::read(const std::string& path) {
  const std::string file = std::filesystem::path(path).stem().string();
  open_.clear();
  for (const Line& line : read_journal(path)) {
    if (starts(file, "producer")) read_producer(line, starts(file, "producer-old"));
    if (starts(file, "worker")) read_worker(line, file);
    if (starts(file, "worker-go")) read_go_worker(line, file);
    if (starts(file, "conductor")) read_conductor(line);
  }
}

Message& Ledger::message(const std::string& token) {
  const auto [entry, is_new] = by_token_.emplace(token, messages_.size());
  if (is_new) {
    messages_.emplace_back();
    messages_.back().token = token;
  }
  return messages_[entry->second];
}

Message* Ledger::find(const std::string& id) {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &messages_[found->second];
}

void Ledger::name(Message& message, const std::string& id) {
  if (!message.id.empty() && message.id != id) {
    message.other_id = id;
  } else {
    message.id = id;
  }
  by_id_[id] = by_token_.at(message.token);
}

void Ledger::read_producer(const Line& line, bool old) {
  const std::string& word = line.word(0);
  if (starts(word, "cancel_")) return read_call(&Message::cancels, "cancel_", line, 2);
  if (starts(word, "reschedule_")) return read_call(&Message::reschedules, "reschedule_", line, 3);
  if (word == "keyed") {
    message(line.word(1)).key = line.word(2);
    by_key_[line.word(2)].push_back(by_token_.at(line.word(1)));
    return;
  }
  const bool begins = word == "sending" || word == "again";
  if (word == "kept") {
    Message& one = message(line.word(1));
    one.sends.back().latest = line.at_us;
    one.sends.back().answer = word;
    one.kept = Kept{one.sends.back().begin, line.at_us, line.word(2)};
    return;
  }
  if (!begins && word != "sent" && word != "doubt" && word != "refused") return;
  Message& one = message(line.word(1));
  if (word == "sending") {
    one.old = old;
    one.retries = static_cast<int>(line.number(3));
    one.kind = kind_named(line.word(4));
  }
  if (begins) {
    const Us due = word == "sending" ? line.number(2) : one.sends.front().due;
    one.sends.push_back({line.at_us, line.at_us + kInBuffers, {}, due});
    return;
  }
  if (word == "doubt") {
    one.sends.back().latest = line.at_us + kInBuffers;
  } else {
    one.sends.back().latest = line.at_us;
    one.sends.back().answer = word == "refused" ? word : "sent";
    one.sends.back().created = word == "sent" && line.number(3) == 1;
  }
  if (word != "refused") name(one, line.word(2));
}

// The line forms "<what>begin <id> [due]", then "<what>answer <id> [due] <answer>", "<what>refused ..." or "<what>doubt
// ...".
void Ledger::read_call(std::vector<Call> Message::*calls, const std::string& what, const Line& line,
                       std::size_t answer) {
  Message* one = find(line.word(1));
  if (one == nullptr) throw std::runtime_error("ledger: " + line.word(0) + " of an unknown message " + line.word(1));
  const std::string step = line.word(0).substr(what.size());
  if (step == "begin") {
    (one->*calls).push_back({line.at_us, line.at_us + kInBuffers, {}, line.number(2)});
    return;
  }
  Call& call = (one->*calls).back();
  call.latest = line.at_us + (step == "doubt" ? kInBuffers : 0);
  if (step == "answer") call.answer = line.word(answer);
  if (step == "refused") call.answer = step;
}

void Ledger::read_worker(const Line& line, const std::string& by) {
  const std::string& word = line.word(0);
  const std::string& id = line.word(1);
  if (word == "acked") {
    if (Message* one = find(id)) one->acked.push_back({line.at_us, by});
    return;
  }
  const std::string number = id + ' ' + line.word(2);
  if (word == "begin") {
    Message& one = message(line.word(3));
    name(one, id);
    open_[number] = {by_token_.at(one.token), one.deliveries.size()};
    const bool held = line.number(5) == 1;
    one.deliveries.push_back(
        {line.at_us, static_cast<int>(line.number(4)), held, held ? line.at_us : 0, 0, {}, by, false});
    if (held) begins_.push_back(line.at_us);
    return;
  }
  if (word != "held" && word != "headers" && word != "payload" && word != "verdict") return;
  const auto [index, place] = open_.at(number);
  Delivery& delivery = messages_[index].deliveries[place];
  if (word == "headers" || word == "payload") {
    (word == "headers" ? delivery.other_headers : delivery.other_payload) = true;
    return;
  }
  delivery.last_held = std::max(delivery.last_held, word == "held" ? line.at_us : line.number(4));
  if (word == "held") return;
  delivery.verdict = line.word(3);
  delivery.verdict_at = line.at_us;
}

void Ledger::read_go_worker(const Line& line, const std::string& by) {
  mixed_ = true;
  Message& one = message(line.word(1));
  if (line.word(0) == "go_begin") one.deliveries.push_back({line.at_us, 0, false, 0, 0, {}, by, true});
  if (line.word(0) != "go_ack") return;
  for (Delivery& delivery : one.deliveries) {
    if (delivery.by != by || delivery.verdict_at != 0) continue;
    delivery.verdict = "ack";
    delivery.verdict_at = line.at_us;
    break;
  }
}

void Ledger::read_conductor(const Line& line) {
  if (line.word(0) == "fault") ++faults_[line.word(1)];
  if (line.word(0) == "back") backs_.push_back({line.word(1), line.at_us});
  if (line.word(0) == "partitions") settings_.push_back({static_cast<unsigned>(line.number(1)), line.at_us});
  if (line.word(0) != "window") return;
  windows_.push_back({line.number(1), line.number(2), {}});
  std::istringstream numbers(line.word(3));
  for (std::string number; std::getline(numbers, number, ',');) {
    windows_.back().partitions.insert(static_cast<unsigned>(std::stoul(number)));
  }
}

void Ledger::sort() {
  std::sort(begins_.begin(), begins_.end());
  for (Message& one : messages_) {
    std::sort(one.deliveries.begin(), one.deliveries.end(),
              [](const Delivery& a, const Delivery& b) { return a.begin < b.begin; });
    std::sort(one.acked.begin(), one.acked.end(), [](const Acked& a, const Acked& b) { return a.at < b.at; });
  }
}

}  // namespace chaos
