// What every command works with: the global options, connections made when first needed, and the output.
#pragma once

#include <delayqueue/inspector.h>
#include <delayqueue/producer.h>

#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "exit.h"
#include "output/output.h"

namespace dqctl {

// As given on the command line.
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
};

class Context {
 public:
  GlobalOptions options{};

  // To be called when the options are complete. Reads the environment and the password file. Throws Usage.
  void resolve_options();

  Output& out() { return output_; }
  void set_output(const std::string& format);

  // Kept: the second call for a queue gives the same one, until a hundred others were asked for. A connection is made
  // by its first call.
  delayqueue::Inspector& inspector(const std::string& queue);
  delayqueue::Producer& producer(const std::string& queue);

  // For those who make their own, a Consumer for example.
  const std::string& uri() const { return uri_; }
  const delayqueue::ConnectionOptions& connection() const { return connection_; }
  const delayqueue::QueueOptions& queue_options() const { return queue_options_; }

  // Whether inspectors made from now on wait for a server no longer than 250 ms.
  void use_short_timeouts(bool brief) { short_timeouts_ = brief; }

  // The URI without its password.
  std::string shown_uri() const;

  // The counts of a queue that is there (it may be empty). Throws Failure(not_found) that says which there are.
  delayqueue::Counts counts(const std::string& queue);

 private:
  Output output_{};
  bool short_timeouts_ = false;
  std::string uri_{};
  delayqueue::ConnectionOptions connection_{};
  delayqueue::QueueOptions queue_options_{};
  std::list<std::pair<std::string, std::unique_ptr<delayqueue::Inspector>>> inspectors_{};  // the latest first
  std::map<std::string, std::unique_ptr<delayqueue::Producer>> producers_{};
};

}  // namespace dqctl
