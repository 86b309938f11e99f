// What all commands share: the global options, the output, and connections, which are made on first use.
#pragma once

#include <delayqueue/client.h>
#include <delayqueue/inspector.h>
#include <delayqueue/producer.h>
#include <delayqueue/queue_admin.h>

#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "audit.h"
#include "exit.h"
#include "output/output.h"

namespace dqctl {

// The global options as given on the command line.
struct GlobalOptions {
  std::string uri{};
  std::string prefix = "dp";
  std::string hash_tag = "auto";
  std::string tls_ca{}, tls_cert{}, tls_key{};
  std::string user{};
  std::string password_file{};
  std::optional<milliseconds> connect_timeout{};
  std::optional<milliseconds> command_timeout{};
  std::string format = "table";
  bool no_colour = false;
  bool utc = false;
  bool audit = false;
  std::optional<unsigned> partition{};  // --partition of the commands that have it; unset: the whole queue
};

class Context {
 public:
  GlobalOptions options{};

  // Completes the options from the environment and the password file. Call it after parsing. Throws Usage.
  void resolve_options();

  // A context with the same options, and with connections for another thread.
  Context for_another_thread() const;

  Output& out() { return output_; }
  void set_output(const std::string& format);

  // The inspector, admin or producer of a queue, created on first use; its first call connects. Inspectors are for
  // commands that read, admins for those that change. The last 100 inspectors and the last 100 admins are kept: a
  // reference to one stays valid until a hundred others were requested.
  delayqueue::Inspector& inspector(const std::string& queue) { return inspector(queue, options.partition); }
  delayqueue::Inspector& inspector(const std::string& queue, std::optional<unsigned> partition);
  delayqueue::QueueAdmin& admin(const std::string& queue);
  delayqueue::Producer& producer(const std::string& queue);

  // Whether changes are recorded: --audit, or DQCTL_AUDIT=1.
  bool audits() const { return audits_; }

  // Notes a change that the command has made, for record_changes(). messages: unset for a change of the queue as such.
  // A change of no message is left out.
  void note_change(const std::string& queue, std::optional<std::uint64_t> messages, std::uint64_t unconfirmed = 0);
  const std::vector<Change>& changes() const { return changes_; }

  // For commands that create their own objects, such as a Consumer, or that are about servers, not about a queue.
  const std::string& uri() const { return uri_; }
  const delayqueue::ClientOptions& client_options() const { return client_options_; }
  const delayqueue::Client& client();

  // Another Client, which waits at most so long for a connection, and for each reply.
  delayqueue::Client hasty_client(milliseconds longest) const;

  // Whether inspectors and admins that are requested from now on wait at most 250 ms for a server. Those that were
  // requested before with the other setting are kept beside them.
  void use_short_timeouts(bool brief) { short_timeouts_ = brief; }

  // The URI with *** for its password.
  std::string shown_uri() const;

  // The counts of a queue that exists; it may be empty. Throws Failure(not_found), which names existing queues.
  delayqueue::Counts counts(const std::string& queue);

 private:
  // A queue, or one partition of it; and whether the timeouts are short.
  using Subject = std::tuple<std::string, std::optional<unsigned>, bool>;
  template <class Object>
  using Objects = std::list<std::pair<Subject, std::unique_ptr<Object>>>;  // latest first

  // Finds the object for a queue, or creates it.
  template <class Object>
  Object& object(Objects<Object>& objects, const Subject& subject);

  Output output_{};
  bool short_timeouts_ = false;
  bool audits_ = false;
  std::vector<Change> changes_{};
  std::string uri_{};
  delayqueue::ClientOptions client_options_{};
  std::optional<delayqueue::Client> client_{}, hasty_client_{};
  Objects<delayqueue::Inspector> inspectors_{};
  Objects<delayqueue::QueueAdmin> admins_{};
  std::map<std::string, std::unique_ptr<delayqueue::Producer>> producers_{};
};

}  // namespace dqctl
