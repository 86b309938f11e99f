#include "redis/pipeline.h"

#include "redis/escaped.h"
#include "redis/resp.h"

#include <delayqueue/error.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <utility>

namespace delayqueue::redis {
namespace {

constexpr std::size_t kReferred = 1024;         // payloads from this size on are not copied
constexpr std::size_t kTransactionAnswers = 4;  // to MULTI, the command, the script and EXEC

// Bytes of a request that may wait in buffers between this program and the server, which has acknowledged nothing then.
constexpr std::size_t kMostBuffered = 512 * 1024;

bool has_error(const ReplyPtr& answer) { return Reply(answer.get()).is_error(); }

bool has_text(const ReplyPtr& answer, std::string_view text) {
  const Reply reply(answer.get());
  return reply.is_text() && reply.text() == text;
}

}  // namespace

Pipeline& Pipeline::command(std::string_view name) {
  requests_.push_back({nullptr, 0, 0, 0, words_.text.size()});
  return arg(name);
}

Pipeline& Pipeline::script(const Script& script) {
  requests_.push_back({&script, 0, 0, 0, words_.text.size()});
  return *this;
}

Pipeline& Pipeline::in_transaction_with(const Script& script) {
  Request& request = requests_.back();
  request.script = &script;
  request.command_words = std::exchange(request.words, 0);
  request.script_begin = words_.text.size();
  request.keys = 0;
  return *this;
}

Pipeline& Pipeline::key(std::string_view name, std::string_view suffix) {
  ++requests_.back().keys;
  word(name, suffix);
  return *this;
}

Pipeline& Pipeline::arg(std::string_view word_) {
  word(word_, {});
  return *this;
}

Pipeline& Pipeline::arg(std::int64_t number) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
  return arg(std::string_view(digits, static_cast<std::size_t>(end - digits)));
}

Pipeline& Pipeline::payload(std::string_view bytes) {
  if (bytes.size() < kReferred) return arg(bytes);
  ++requests_.back().words;
  requests_.back().bytes += bytes.size();
  append_head(words_.text, '$', bytes.size());
  words_.refer_to(bytes);
  words_.text.append("\r\n");
  return *this;
}

void Pipeline::word(std::string_view front, std::string_view back) {
  ++requests_.back().words;
  requests_.back().bytes += front.size() + back.size();
  append_head(words_.text, '$', front.size() + back.size());
  words_.text.append(front).append(back).append("\r\n");
}

void Pipeline::append(Gathered& out, std::size_t i) const {
  const Request& request = requests_[i];
  const std::size_t end = i + 1 < requests_.size() ? requests_[i + 1].begin : words_.text.size();
  const bool in_transaction = request.command_words > 0;
  std::size_t begin = request.begin;
  if (in_transaction) {
    append_command(out.text, {"MULTI"});
    append_head(out.text, '*', request.command_words);
    out.append(words_, begin, request.script_begin);
    begin = request.script_begin;
  }
  if (request.script == nullptr) {
    append_head(out.text, '*', request.words);
  } else {
    append_head(out.text, '*', request.words + 3);
    append_word(out.text, request.by_eval ? "EVAL" : "EVALSHA");
    append_word(out.text, request.by_eval ? request.script->body : request.script->sha1);
    append_word(out.text, std::to_string(request.keys));
  }
  out.append(words_, begin, end);
  if (in_transaction) append_command(out.text, {"EXEC"});
}

void Pipeline::send() {
  if (requests_.empty()) return;
  Gathered out;
  out.text.reserve(words_.text.size() + requests_.size() * 96);
  for (std::size_t i = 0; i < requests_.size(); ++i) append(out, i);
  connection_.write(out.pieces());
  connection_.awaited().push_back(this);
}

void Pipeline::receive() {
  while (replies_.size() < requests_.size()) connection_.awaited().front()->read_replies();
  resend();
}

bool Pipeline::receive_arrived() {
  while (replies_.size() < requests_.size()) {
    if (!connection_.awaited().front()->read_arrived_replies()) return false;
  }
  resend();
  return true;
}

// What a request takes until the command timeout for its answer begins.
milliseconds Pipeline::time_for(std::size_t i) const {
  return requests_[i].takes + Patience::time_for(std::min(requests_[i].bytes, kMostBuffered));
}

void Pipeline::read_replies() {
  replies_.reserve(requests_.size());
  while (replies_.size() < requests_.size()) {
    add_answer(connection_.read(time_for(replies_.size())));
  }
  connection_.awaited().pop_front();
}

bool Pipeline::read_arrived_replies() {
  replies_.reserve(requests_.size());
  while (replies_.size() < requests_.size()) {
    ReplyPtr answer = connection_.read_arrived(time_for(replies_.size()));
    if (answer == nullptr) return false;
    slowest_answer_ = std::max(slowest_answer_, connection_.arrival());
    add_answer(std::move(answer));
  }
  connection_.awaited().pop_front();
  return true;
}

std::size_t Pipeline::answers_to(std::size_t i) const {
  return requests_[i].command_words > 0 ? kTransactionAnswers : 1;
}

// The answer to a request, from the answers of the node to its parts.
ReplyPtr Pipeline::whole(Connection& node, std::vector<ReplyPtr> parts) const {
  if (parts.size() == 1) return std::move(parts.front());
  ReplyPtr &multi = parts[0], &command = parts[1], &script = parts[2], &exec = parts[3];
  if (has_error(multi)) return std::move(has_error(command) ? command : has_text(script, "QUEUED") ? multi : script);
  const Reply both(exec.get());
  if (both.is_array() && both.size() == 2) {
    return take_element(std::move(exec), both[1].is_error() && both[0].is_error() ? 0 : 1);
  }
  // An unknown EXEC, for example, would leave the connection in the transaction.
  const bool ended = both.is_error() && (both.text().substr(0, 9) == "EXECABORT" || is_slot_unavailable(both.text()) ||
                                         node.redirection(both));
  if (!ended) node.retire();
  return std::move(has_error(command) ? command : has_error(script) ? script : exec);
}

// Adds an answer of the server to those of the next request.
void Pipeline::add_answer(ReplyPtr answer) {
  parts_.push_back(std::move(answer));
  if (parts_.size() == answers_to(replies_.size())) replies_.push_back(whole(connection_, std::exchange(parts_, {})));
}

// Sends again what the server could not run, or another node must run.
void Pipeline::resend() {
  std::vector<std::size_t> all(requests_.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  resend_unknown_scripts(connection_, all, false);
  connection_.follows_redirections() ? follow_redirections() : record_redirections();
}

Pipeline& Pipeline::repeatable() {
  requests_.back().repeatable = true;
  return *this;
}

Pipeline& Pipeline::needs(std::size_t count) {
  requests_.back().needs = count;
  return *this;
}

Pipeline& Pipeline::takes(milliseconds time) {
  requests_.back().takes = time;
  return *this;
}

bool Pipeline::is_unknown_script(std::size_t i) const {
  const Reply reply(replies_[i].get());
  return requests_[i].script != nullptr && reply.is_error() && reply.text().substr(0, 8) == "NOSCRIPT";
}

// Sends the requests and reads their answers. `ask`: each request is preceded by ASKING.
void Pipeline::exchange(Connection& node, const std::vector<std::size_t>& requests, bool ask) {
  resent_ = true;
  Gathered out;
  for (const std::size_t i : requests) {
    if (ask) append_command(out.text, {"ASKING"});
    append(out, i);
  }
  node.write(out.pieces());
  for (const std::size_t i : requests) {
    ReplyPtr asking = ask ? node.read() : nullptr;
    std::vector<ReplyPtr> parts;
    while (parts.size() < answers_to(i)) parts.push_back(node.read(time_for(i)));
    replies_[i] = whole(node, std::move(parts));
    if (asking != nullptr && Reply(asking.get()).is_error()) replies_[i] = std::move(asking);
  }
}

void Pipeline::resend_unknown_scripts(Connection& node, const std::vector<std::size_t>& requests, bool ask) {
  std::vector<std::size_t> again;
  for (const std::size_t i : requests) {
    const bool unknown = is_unknown_script(i);
    if (!unknown && (again.empty() || !requests_[i].repeatable)) continue;
    requests_[i].by_eval = unknown;
    again.push_back(i);
  }
  if (again.empty()) return;
  unloaded_at_ = node.where();
  while (!node.awaited().empty()) node.awaited().front()->read_replies();
  exchange(node, again, ask);
}

// Sends redirected requests to the nodes that they were redirected to, one node at a time, in the order in which the
// requests were added. Follows at most 5 redirections, because nodes may redirect in a circle.
void Pipeline::follow_redirections() {
  constexpr int kMostHops = 5;
  for (int hop = 0; hop < kMostHops; ++hop) {
    std::optional<Redirection> to;
    std::vector<std::size_t> again;
    bool all_repeated = true;  // every request so far runs on the new node, or on none
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      const Reply answer(replies_[i].get());
      const auto redirected = connection_.redirection(answer);
      if (redirected && !to) to = redirected;
      const bool same_node = redirected && redirected->address.text() == to->address.text();
      // Several slots may have moved to one node. ASK is for the keys of one slot.
      const bool same_target = same_node && redirected->ask == to->ask && (!to->ask || redirected->slot == to->slot);
      if (same_target) connection_.learn(*redirected);
      if (!same_target && !repeats_with(i, redirected.has_value(), to)) {
        const bool is_refused = answer.is_error() && is_slot_unavailable(answer.text());
        if (is_refused && answer.text().substr(0, kNotServed.size()) == kNotServed) connection_.lose_slot();
        all_repeated = all_repeated && (requests_[i].repeatable || is_refused);
        continue;
      }
      // A request without a key (WAIT) is about all writes before it, and covers those of one node only.
      if (requests_[i].keys == 0 && !all_repeated) {
        throw ConnectionError("cannot confirm the durability of the writes: the slot moved from " +
                              connection_.where() + " to " + to->address.text() +
                              " during the call, so that some are on each node; repeat the call");
      }
      if (redirected && !to->ask) moved_.push_back(i);
      requests_[i].by_eval = false;  // the script may be loaded there
      again.push_back(i);
    }
    if (again.empty()) return;
    Connection& node = connection_.follow(*to);
    exchange(node, again, to->ask);
    resend_unknown_scripts(node, again, to->ask);
  }
}

void Pipeline::record_redirections() {
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    const auto redirected = connection_.redirection(Reply(replies_[i].get()));
    if (!redirected || redirected->ask) continue;
    connection_.record_move(*redirected);
    moved_.push_back(i);
  }
}

// Whether a request that was answered here is repeated on the node `to`. With ASK, the key of such a request is still
// on this node: writing it on the other one, too, would make it impossible to migrate.
bool Pipeline::repeats_with(std::size_t i, bool redirected, const std::optional<Redirection>& to) const {
  return to && !redirected && requests_[i].repeatable && (!to->ask || requests_[i].keys == 0);
}

Reply Pipeline::reply(std::size_t i) const {
  const Reply reply(replies_.at(i).get());
  const Script* script = requests_[i].script;
  for (std::size_t k = i - requests_[i].needs; reply.is_error() && k < i; ++k) static_cast<void>(this->reply(k));
  if (connection_.redirection(reply) && !connection_.follows_redirections()) {
    throw SlotUnavailable("redis at " + connection_.where() + " answered: " + escaped(reply.text()) +
                              "; the queue's slot moves to another node",
                          true);
  }
  if (connection_.redirection(reply)) {
    throw ConnectionError("redis at " + connection_.where() +
                          ": gave up after following several redirections; the last was: " + escaped(reply.text()));
  }
  if (reply.is_error()) {
    if (requests_[i].by_eval && is_refused_eval(reply.text())) {
      throw ScriptsMissing("the scripts are not loaded at " + unloaded_at_ +
                           " and this user may not EVAL: run `dqctl scripts load` there as a user who may, or grant "
                           "+eval");
    }
    throw_if_error(
        reply, script == nullptr ? connection_.where() : connection_.where() + " (" + std::string(script->name) + ")");
  }
  return reply;
}

}  // namespace delayqueue::redis
