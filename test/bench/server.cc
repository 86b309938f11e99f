#include "bench/server.h"

namespace bench {
namespace {

using namespace delayqueue;

// Without persistence, unless the arguments enable it.
PrivateServerOptions options_with(const std::vector<std::string>& arguments) {
  PrivateServerOptions options;
  options.arguments = {"--appendonly", "no", "--save", ""};
  options.arguments.insert(options.arguments.end(), arguments.begin(), arguments.end());
  return options;
}

std::string text_of(redis::Reply reply) {
  return reply.is_text() ? std::string(reply.text()) : std::to_string(reply.integer());
}

// The number after `name` in a line of INFO; 0 if it is not there.
double number_after(std::string_view line, std::string_view name) {
  const std::size_t at = line.find(name);
  return at == std::string_view::npos ? 0 : std::strtod(line.data() + at + name.size(), nullptr);
}

double growth_of(std::string_view before, std::string_view after, const std::string& command, std::string_view field) {
  const std::string name = "cmdstat_" + command;
  return number_after(field_of(after, name), field) - number_after(field_of(before, name), field);
}

}  // namespace

Server::Server(const std::vector<std::string>& arguments)
    : own_(options_with(arguments)),
      url_(own_.url()),
      socket_(own_.socket()),
      folder_(own_.folder()),
      connection_(connect()) {}

std::unique_ptr<redis::Connection> Server::connect() const {
  redis::Address address;
  address.path = socket_;
  redis::Login login;
  login.client_name = "bench";
  ClientOptions patient;  // removing a million keys takes a while
  patient.command_timeout = std::chrono::seconds(60);
  return std::make_unique<redis::Connection>(address, login, patient);
}

std::string Server::command(const std::vector<std::string>& words) {
  redis::Pipeline pipeline(*connection_);
  pipeline.command(words.front());
  for (std::size_t i = 1; i < words.size(); ++i) pipeline.arg(words[i]);
  pipeline.run();
  return text_of(pipeline.reply(0));
}

double Server::info(const std::string& section, const std::string& field) {
  const std::string text = command({"INFO", section});
  const std::string_view value = field_of(text, field);
  if (value.empty()) throw std::runtime_error("INFO " + section + " of this server has no " + field);
  return std::strtod(value.data(), nullptr);
}

std::string Server::version() {
  const std::string text = command({"INFO", "server"});
  for (const std::string name : {"valkey", "redict", "redis"}) {
    const std::string_view version = field_of(text, name + "_version");
    if (!version.empty()) return name + ' ' + std::string(version);
  }
  return "unknown";
}

std::string Server::setting(const std::string& name) {
  redis::Pipeline pipeline(*connection_);
  pipeline.command("CONFIG").arg("GET").arg(name).run();
  const redis::Reply reply = pipeline.reply(0);
  return reply.size() == 2 ? std::string(reply[1].text()) : "";
}

void Server::flush() { command({"FLUSHALL", "SYNC"}); }

void Server::end() noexcept {
  try {
    own_.kill();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  } catch (const std::exception&) {  // the server ends with this process in any case
  }
}

std::string_view field_of(std::string_view info, std::string_view field) {
  for (std::size_t begin = 0; begin < info.size();) {
    const std::size_t end = std::min(info.find('\n', begin), info.size());
    std::string_view line = info.substr(begin, end - begin);
    begin = end + 1;
    if (line.size() <= field.size() || line.substr(0, field.size()) != field || line[field.size()] != ':') continue;
    line.remove_prefix(field.size() + 1);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    return line;
  }
  return {};
}

double longest_us(std::string_view before, std::string_view after) {
  double longest = 0;
  std::istringstream lines{std::string(after)};
  for (std::string line; std::getline(lines, line);) {
    const std::string name = line.substr(0, line.find(':'));
    if (name.rfind("cmdstat_", 0) != 0 || name == "cmdstat_info") continue;
    const std::string_view stats_after = field_of(after, name), stats_before = field_of(before, name);
    const double calls = number_after(stats_after, "calls=") - number_after(stats_before, "calls=");
    const double us = number_after(stats_after, "usec=") - number_after(stats_before, "usec=");
    if (calls > 0) longest = std::max(longest, us / calls);
  }
  return longest;
}

double own_us(std::string_view before, std::string_view after, const std::string& command) {
  return growth_of(before, after, command, "usec=");
}

double calls_of(std::string_view before, std::string_view after, const std::string& command) {
  return growth_of(before, after, command, "calls=");
}

}  // namespace bench
