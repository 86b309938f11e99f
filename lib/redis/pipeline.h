// Several requests, one write and one read; or the two apart, so that work goes on while the answers are on their way.
#pragma once

#include "redis/connection.h"
#include "redis/reply.h"
#include "redis/script.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace delayqueue::redis {

// Build requests one after the other, each by command() or script() followed by its words; run(); then look at the
// replies. A script that the server does not know (NOSCRIPT: it was restarted, or promoted) is sent again whole, once,
// and with it the repeatable() requests behind it; the others have run by then, so they must not depend on its having
// gone first. So is what a node of a Cluster redirects, to where it belongs. Only what is unknown is sent whole: a user
// without the right to EVAL can work wherever the scripts are loaded.
//
// Several pipelines of one connection may be under way: each is sent, later received. Answers come in the order of the
// writes, so receive() first takes in those of the pipelines sent before it, and, when a script has to be
// sent again, those of the pipelines behind it, too: it runs after all that was under way. One that is given up
// while its answers are still to come leaves the connection of no use. It must not outlive the connection.
class Pipeline {
 public:
  explicit Pipeline(Connection& connection) : connection_(connection) {}
  ~Pipeline() { connection_.give_up(this); }
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  Pipeline& command(std::string_view name);
  Pipeline& script(const Script& script);  // all key()s, then all arg()s

  Pipeline& key(std::string_view name) { return key(name, {}); }
  Pipeline& key(std::string_view name, std::string_view suffix);  // the two joined
  Pipeline& arg(std::string_view word);
  Pipeline& arg(std::int64_t number);

  // Of the request just built.
  Pipeline& repeatable();
  Pipeline& takes(milliseconds time);  // its answer may take so much longer than the command timeout

  std::size_t size() const { return requests_.size(); }

  // Sends all and waits for all answers. Throws ConnectionError: then it is unknown which of them ran, and the answers
  // of others that are under way are lost, too.
  void run() {
    send();
    receive();
  }

  // The halves of run(), each once. Nothing may be added after send().
  void send();
  void receive();

  // Whether requests had to be sent again: they ran after the rest.
  bool resent() const { return resent_; }

  // The answer to request number i, from 0. Throws ReplyError or ConnectionError if it is an error.
  Reply reply(std::size_t i) const;

 private:
  struct Request {
    const Script* script;  // null for a command
    std::size_t words = 0;
    std::size_t keys = 0;
    std::size_t begin;  // in words_
    bool repeatable = false;
    milliseconds takes{0};
    bool whole = false;  // the script, not its name: EVAL
  };

  void word(std::string_view front, std::string_view back);
  void append(std::string& out, std::size_t i) const;
  void read_replies();
  bool is_unknown_script(std::size_t i) const;
  void exchange(Connection& node, const std::vector<std::size_t>& requests, bool ask);
  void resend_unknown_scripts(Connection& node, const std::vector<std::size_t>& requests, bool ask);
  void follow_redirections();
  bool repeats_with(std::size_t i, bool sent_on, const std::optional<Redirection>& to) const;

  Connection& connection_;
  std::vector<Request> requests_;
  std::string words_;  // of all requests, in RESP, without their heads
  std::vector<ReplyPtr> replies_;
  bool resent_ = false;
  std::string unloaded_at_;  // the address of a server that wanted scripts whole
};

// What a request of a pipeline will have been answered, read as a T once the pipeline has run.
template <class T>
class Answer {
 public:
  Answer(const Pipeline& pipeline, T (*read)(Reply)) : pipeline_(&pipeline), at_(pipeline.size() - 1), read_(read) {}

  T get() const { return read_(pipeline_->reply(at_)); }

 private:
  const Pipeline* pipeline_;
  std::size_t at_;
  T (*read_)(Reply);
};

}  // namespace delayqueue::redis
