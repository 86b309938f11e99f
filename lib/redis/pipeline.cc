#include "redis/pipeline.h"

#include "redis/resp.h"

#include <delayqueue/error.h>

#include <charconv>

namespace delayqueue::redis {

Pipeline& Pipeline::command(std::string_view name) {
  requests_.push_back({nullptr, 0, 0, words_.size()});
  return arg(name);
}

Pipeline& Pipeline::script(const Script& script) {
  requests_.push_back({&script, 0, 0, words_.size()});
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

void Pipeline::word(std::string_view front, std::string_view back) {
  ++requests_.back().words;
  append_head(words_, '$', front.size() + back.size());
  words_.append(front).append(back).append("\r\n");
}

void Pipeline::append(std::string& out, std::size_t i, bool whole_script) const {
  const Request& request = requests_[i];
  const std::size_t end = i + 1 < requests_.size() ? requests_[i + 1].begin : words_.size();
  if (request.script == nullptr) {
    append_head(out, '*', request.words);
  } else {
    append_head(out, '*', request.words + 3);
    append_word(out, whole_script ? "EVAL" : "EVALSHA");
    append_word(out, whole_script ? request.script->body : request.script->sha1);
    append_word(out, std::to_string(request.keys));
  }
  out.append(words_, request.begin, end - request.begin);
}

void Pipeline::run() {
  replies_.clear();
  if (requests_.empty()) return;
  std::string out;
  out.reserve(words_.size() + requests_.size() * 96);
  for (std::size_t i = 0; i < requests_.size(); ++i) append(out, i, false);
  connection_.write(out);
  replies_.reserve(requests_.size());
  for (std::size_t i = 0; i < requests_.size(); ++i) replies_.push_back(connection_.read());
  resend_unknown_scripts();
}

Pipeline& Pipeline::repeatable() {
  requests_.back().repeatable = true;
  return *this;
}

bool Pipeline::is_unknown_script(std::size_t i) const {
  const Reply reply(replies_[i].get());
  return requests_[i].script != nullptr && reply.is_error() && reply.text().substr(0, 8) == "NOSCRIPT";
}

void Pipeline::resend_unknown_scripts() {
  std::vector<std::size_t> again;
  std::string out;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (!is_unknown_script(i) && (again.empty() || !requests_[i].repeatable)) continue;
    again.push_back(i);
    append(out, i, true);
  }
  resent_ = !again.empty();
  if (!resent_) return;
  connection_.write(out);
  for (const std::size_t i : again) replies_[i] = connection_.read();
}

Reply Pipeline::reply(std::size_t i) const {
  const Reply reply(replies_.at(i).get());
  const Script* script = requests_[i].script;
  if (reply.is_error()) {
    throw_if_error(
        reply, script == nullptr ? connection_.where() : connection_.where() + " (" + std::string(script->name) + ")");
  }
  return reply;
}

}  // namespace delayqueue::redis
