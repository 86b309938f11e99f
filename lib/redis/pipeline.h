// Pipelining: several requests are sent with one write, and their answers are read together.
#pragma once

#include "redis/connection.h"
#include "redis/gathered.h"
#include "redis/reply.h"
#include "redis/script.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace delayqueue::redis {

// A list of requests for one connection. Add each request with command() or script() and its key()s and arg()s, call
// run(), then read the replies. A pipeline must not outlive its connection.
//
// NOSCRIPT: a server that was restarted or promoted may lack a script. The pipeline then sends that request once more
// with EVAL, followed by the repeatable() requests after it. The other requests have already run, so they must not
// depend on the script having run before them. Only missing scripts are sent with EVAL, so a user without the right to
// EVAL can work wherever the scripts are loaded.
//
// MOVED and ASK: requests that a Cluster node redirects are sent again to the node that it names. After
// Connection::refuse_redirections() they are not, and reply() throws SlotUnavailable for them.
//
// Several pipelines of one connection may be in flight: each calls send(), and later receive(). The server answers in
// the order of the writes, so receive() first reads the answers of the pipelines sent earlier. If a script must be sent
// again, receive() also reads the answers of the pipelines sent later, so the script runs after all of them.
// A pipeline destroyed before its answers were read makes the connection unusable.
//
// A command and a script can be one request, in a transaction: see in_transaction_with(). Redis refuses both, or runs
// one after the other. What must be sent again is the whole transaction.
class Pipeline {
 public:
  explicit Pipeline(Connection& connection) : connection_(connection) {}
  ~Pipeline() { connection_.give_up(this); }
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  Pipeline& command(std::string_view name);
  Pipeline& script(const Script& script);  // all key()s, then all arg()s

  Pipeline& key(std::string_view name) { return key(name, {}); }
  Pipeline& key(std::string_view name, std::string_view suffix);  // concatenated
  Pipeline& arg(std::string_view word);
  Pipeline& arg(std::int64_t number);
  Pipeline& payload(std::string_view bytes);  // an arg() that is not copied: it must live until receive() has ended

  // Makes one request of the command added last and this script, in a transaction (MULTI, EXEC). The key()s and arg()s
  // that follow are the script's. So is the answer; if that is an error, the first error.
  // The command must be repeatable: if the server lacks the script, it has run, and both are sent again. The script
  // must check that the command was executed: Redis runs it also after a command that fails. For a user without the
  // right to MULTI both run one after the other, without a transaction.
  Pipeline& in_transaction_with(const Script& script);

  // Attributes of the request added last.
  Pipeline& repeatable();  // may be sent twice: see NOSCRIPT above
  // Depends on the `count` requests added just before it: if this request fails and one of those failed, too, reply()
  // throws the error of the earlier one.
  Pipeline& needs(std::size_t count);
  Pipeline& takes(milliseconds time);  // extends the command timeout for its answer by this much

  std::size_t size() const { return requests_.size(); }

  // The address of the server, for log entries.
  const std::string& where() const { return connection_.where(); }

  // Sends all requests and waits for all answers. Throws ConnectionError: then it is unknown which requests ran, and
  // the answers of the connection's other pipelines in flight are lost, too.
  void run() {
    send();
    receive();
  }

  // The two halves of run(). Call each once; add no request after send().
  void send();
  void receive();

  // Like receive(), but does not wait: returns false if not all answers have arrived. Call it again when the connection
  // is readable, or at its due() time, when it throws ConnectionError. A request that must be sent again is waited for.
  bool receive_arrived();

  // For how long that of its answers which receive_arrived() read was arriving that took longest.
  Clock::duration slowest_answer() const { return slowest_answer_; }

  // Whether some requests were sent again, and so ran after the others.
  bool resent() const { return resent_; }

  // The requests that another node ran or must run, because it owns their slot now.
  const std::vector<std::size_t>& moved() const { return moved_; }

  // The answer to request i, counted from 0. Throws ReplyError or ConnectionError if the answer is an error.
  Reply reply(std::size_t i) const;

  bool is_error(std::size_t i) const { return Reply(replies_.at(i).get()).is_error(); }

 private:
  struct Request {
    const Script* script;  // null for a command
    std::size_t words = 0;
    std::size_t bytes = 0;
    std::size_t keys = 0;
    std::size_t begin;              // in the text of words_
    std::size_t command_words = 0;  // of the command before the script, in a transaction; 0: there is none
    std::size_t script_begin = 0;   // in the text of words_, in a transaction
    bool repeatable = false;
    std::size_t needs = 0;  // number of requests before it on which it depends
    milliseconds takes{0};
    bool by_eval = false;  // sent with EVAL and the script's body, not with EVALSHA
  };

  void word(std::string_view front, std::string_view back);
  void append(Gathered& out, std::size_t i) const;
  std::size_t answers_to(std::size_t i) const;
  void add_answer(ReplyPtr answer);
  ReplyPtr whole(Connection& node, std::vector<ReplyPtr> parts) const;
  milliseconds time_for(std::size_t i) const;
  void read_replies();
  bool read_arrived_replies();
  void resend();
  bool is_unknown_script(std::size_t i) const;
  void exchange(Connection& node, const std::vector<std::size_t>& requests, bool ask);
  void resend_unknown_scripts(Connection& node, const std::vector<std::size_t>& requests, bool ask);
  void follow_redirections();
  void record_redirections();
  bool repeats_with(std::size_t i, bool redirected, const std::optional<Redirection>& to) const;

  Connection& connection_;
  std::vector<Request> requests_;
  Gathered words_;  // the RESP bulk strings of all requests, without the array headers
  std::vector<ReplyPtr> replies_;
  std::vector<ReplyPtr> parts_;  // the answers so far to the parts of a transaction
  Clock::duration slowest_answer_{};
  bool resent_ = false;
  std::vector<std::size_t> moved_;
  std::string unloaded_at_;  // the address of a server that answered NOSCRIPT
};

// A future for the answer to the request added last: get() converts it to a T once the pipeline has run.
template <class T>
class Answer {
 public:
  Answer(const Pipeline& pipeline, T (*read)(Reply)) : pipeline_(&pipeline), at_(pipeline.size() - 1), read_(read) {}

  T get() const { return read_(pipeline_->reply(at_)); }

  bool is_error() const { return pipeline_->is_error(at_); }

 private:
  const Pipeline* pipeline_;
  std::size_t at_;
  T (*read_)(Reply);
};

}  // namespace delayqueue::redis
