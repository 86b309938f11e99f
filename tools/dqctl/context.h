// What every command works with: the global options, connections made when first needed, and the output.
#pragma once

#include <delayqueue/inspector.h>
#include <delayqueue/producer.h>

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "exit.h"
#include "output.h"

namespace dqctl {

// As given on the command line.
struct GlobalOptions {
  std::string uri{};
  std::string prefix = "dp";
  std::string hash_tag = "auto";
  std::string tls_ca{}, tls_cert{}, tls_key{};
  std::string user{};
  std::string password_file{};
  std::optional<milliseconds> timeout{};
  std::string format = "table";
  bool no_colour = false;
  bool utc = false;
};

class Context {
 public:
  GlobalOptions options{};

  // To be called when the options are complete. Reads the environment and the password file. Throws Usage.
  void settle();

  Output& out() { return output_; }

  // Kept: the second call for a queue gives the same one. A connection is made by the first call of theirs.
  delayqueue::Inspector& inspector(const std::string& queue);
  delayqueue::Producer& producer(const std::string& queue);

  // For those who make their own, a Consumer for example.
  const std::string& uri() const { return uri_; }
  const delayqueue::ConnectionOptions& connection() const { return connection_; }
  const delayqueue::QueueOptions& queue_options() const { return queue_options_; }

  // The URI without its password.
  std::string shown_uri() const;

  // The counts of a queue that is there (it may be empty). Throws Failure(not_found) that says which there are.
  delayqueue::Counts counts(const std::string& queue);

 private:
  Output output_{};
  std::string uri_{};
  delayqueue::ConnectionOptions connection_{};
  delayqueue::QueueOptions queue_options_{};
  std::map<std::string, std::unique_ptr<delayqueue::Inspector>> inspectors_{};
  std::map<std::string, std::unique_ptr<delayqueue::Producer>> producers_{};
};

}  // namespace dqctl
