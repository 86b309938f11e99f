#include "serve/routes.h"

#include <delayqueue/error.h>
#include <delayqueue/version.h>

#include <algorithm>
#include <exception>
#include <utility>
#include <vector>

#include "exit.h"
#include "filter.h"
#include "row_error.h"
#include "serve/page_files.h"

namespace dqctl {
namespace {

HttpAnswer text_answer(std::string_view type, std::string body, int status = 200) {
  HttpAnswer answer;
  answer.status = status;
  answer.type = type;
  answer.body = std::move(body);
  return answer;
}

HttpAnswer json_answer(std::string body, int status = 200) {
  return text_answer("application/json", std::move(body), status);
}

HttpAnswer json_answer(const Object& object, int status = 200) { return json_answer(object.text(), status); }

int status_of(const Failure& failure) {
  switch (failure.code()) {
    case Exit::usage:
      return 400;
    case Exit::not_found:
      return 404;
    case Exit::interrupted:
      return 503;
    default:
      return 502;
  }
}

// The name of a queue in a path. Browsers and proxies remove the parts . and .. from a path, even if they are
// percent-encoded. So these names may have a ~ in front, and names that would look like that, such as ~. itself, must.
std::string queue_in(const std::string& part) {
  const std::size_t begin = part.find_first_not_of('~');
  const bool is_escaped = begin != 0 && begin != std::string::npos &&
                          (part.compare(begin, 3, ".") == 0 || part.compare(begin, 3, "..") == 0);
  return is_escaped ? part.substr(1) : part;
}

HttpAnswer metrics_page(std::string text) {
  return text_answer("text/plain; version=0.0.4; charset=utf-8", std::move(text));
}

HttpAnswer health_page(bool reachable) {
  return text_answer("text/plain; charset=utf-8", reachable ? "ok\n" : "redis is unreachable\n", reachable ? 200 : 503);
}

HttpAnswer only_for_reading(const std::string& what) {
  HttpAnswer answer = error_answer(405, what);
  answer.allow = "GET, HEAD";
  return answer;
}

// The answer of `route`, or that of its error.
template <class Route>
HttpAnswer answer_or_error(const Route& route) {
  try {
    return route();
  } catch (const HttpError& error) {
    return error_answer(error.status(), error.what());
  } catch (const Failure& error) {
    return error_answer(status_of(error), error.what());
  } catch (const delayqueue::ConnectionError& error) {
    return error_answer(503, error.what());
  } catch (const delayqueue::ReplyError& error) {
    return error_answer(502, advised(error.what()));
  } catch (const std::invalid_argument& error) {
    return error_answer(400, error.what());
  } catch (const std::exception& error) {
    return error_answer(500, error.what());
  }
}

}  // namespace

HttpAnswer metrics_answer(const Access& access, CommandReads& reads, CommandReads& checks,
                          const std::vector<std::string>& queues, const HttpRequest& request) {
  return answer_or_error([&] {
    const std::vector<std::string>& path = request.target.path;
    const bool is_health = path.size() == 1 && path.front() == "healthz";
    const bool is_metrics = path.size() == 1 && path.front() == "metrics";
    access.check(request, is_health);
    if (!is_health && !is_metrics) throw HttpError(404, "there is no such path; expected /metrics or /healthz");
    if (request.method == "POST") return only_for_reading("cannot POST to this path; expected GET or HEAD");
    Query(request.target, {});
    if (is_metrics) return metrics_page(reads.metrics(queues));
    try {
      checks.check_redis(queues);
      return health_page(true);
    } catch (const delayqueue::Error&) {
      return health_page(false);
    } catch (const HttpError&) {
      return health_page(false);
    }
  });
}

HttpAnswer Routes::answer(const HttpRequest& request) const {
  return answer_or_error([&] { return route(request); });
}

HttpAnswer Routes::route(const HttpRequest& request) const {
  const Path& path = request.target.path;
  const bool is_open = path.empty() || path.front() != "api";
  const bool is_metrics = path == Path{"metrics"};
  parts_.access.check(request, is_open && !is_metrics);
  if (request.method == "POST") return change(request);
  if (const auto answer = page(request)) return *answer;
  if (is_metrics) {
    Query(request.target, {});
    parts_.reads.reachable();
    return metrics_page(parts_.command_reads.metrics({}));
  }
  std::optional<HttpAnswer> answer;
  if (path.size() >= 2 && path[0] == "api") {
    const bool is_queue = path[1] == "queues" && path.size() > 2;
    answer = is_queue ? about_queue(path, request) : about_server(path, request);
  }
  if (answer) return *answer;
  throw HttpError(404, "there is no such path; GET /api/openapi.json lists all");
}

std::optional<HttpAnswer> Routes::page(const HttpRequest& request) const {
  const Path& path = request.target.path;
  if (path.empty()) return text_answer("text/html; charset=utf-8", std::string(page_files::index_html));
  if (path.size() != 1) return std::nullopt;
  if (path[0] == "style.css") return text_answer("text/css; charset=utf-8", std::string(page_files::style_css));
  const bool is_elements = path[0] == "elements.js";
  if (is_elements || path[0] == "page.js") {
    return text_answer("text/javascript; charset=utf-8",
                       std::string(is_elements ? page_files::elements_js : page_files::page_js));
  }
  if (path[0] == "favicon.ico") return text_answer("image/x-icon", "", 204);  // browsers ask for it
  if (path[0] == "healthz") return health();
  return std::nullopt;
}

std::optional<HttpAnswer> Routes::about_server(const Path& path, const HttpRequest& request) const {
  if (path.size() != 2) return std::nullopt;
  const std::string& name = path[1];
  if (name == "find") return json_answer(parts_.reads.find(Query(request.target, {"text"})));
  Query(request.target, {});
  if (name == "queues") return queues();
  if (name == "history") return json_answer(history_document(parts_.history.waiting()));
  if (name == "server") return json_answer(server());
  if (name == "audit") return json_answer(audit());
  if (name == "events") return events();
  if (name == "openapi.json") return json_answer(std::string(page_files::openapi_json));
  if (name != "workers") return std::nullopt;
  parts_.reads.reachable();
  return json_answer(parts_.command_reads.workers());
}

std::optional<HttpAnswer> Routes::about_queue(const Path& path, const HttpRequest& request) const {
  const std::string name = queue_in(path[2]);
  const Target& target = request.target;
  const std::string what = path.size() > 3 ? path[3] : "";
  const bool is_message = what == "messages" && path.size() > 4;
  if (path.size() > 6 || (path.size() > 4 && !is_message)) return std::nullopt;
  if ((path.size() == 4 && action_of(what, false)) || (path.size() == 6 && action_of(path[5], true))) {
    HttpAnswer answer = error_answer(405, "cannot do this with " + request.method + "; expected POST");
    answer.allow = "POST";
    return answer;
  }
  if (path.size() == 6) return std::nullopt;
  if (is_message) return json_answer(parts_.reads.message(name, path[4], Query(target, {"payload"})));
  if (what == "messages") {
    return json_answer(parts_.reads.messages(name, Query(target, {"state", "cursor", "limit", "payload", "reason"})));
  }
  Query(target, {});
  if (path.size() == 3) return queue(name);
  if (what == "history") return json_answer(history(name));
  if (what == "partitions") return json_answer(parts_.reads.partitions(name));
  const bool is_stuck = what == "stuck";
  if (!is_stuck && what != "dead-reasons") return std::nullopt;
  parts_.reads.existing(name);
  if (!is_stuck) return json_answer(parts_.command_reads.dead_reasons(name));
  const auto readings = parts_.poller.last();
  const QueueReading* reading = readings->find(name);
  return json_answer(parts_.command_reads.stuck(name, reading != nullptr ? reading->a_minute_ago : std::nullopt));
}

HttpAnswer Routes::change(const HttpRequest& request) const {
  const Path& path = request.target.path;
  const bool by_id = path.size() == 6 && path[3] == "messages";
  const bool is_queue = path.size() >= 4 && path[0] == "api" && path[1] == "queues";
  const auto action = is_queue && (by_id || path.size() == 4) ? action_of(path.back(), by_id) : std::nullopt;
  parts_.access.check_change(request);
  if (!action) return only_for_reading("cannot POST to this path; GET /api/openapi.json lists all");
  Query(request.target, {});
  const ChangeRequest change = parse_change(*action, request.body);
  const std::string queue = queue_in(path[2]);
  const ServedClient client{request.client, parts_.access.user_of(request)};
  return json_answer(by_id ? parts_.changes.change_message(change, queue, path[4], client)
                           : parts_.changes.change_queue(change, queue, client));
}

HttpAnswer Routes::health() const { return health_page(!parts_.poller.last()->failing_since); }

HttpAnswer Routes::queues() const {
  const auto readings = parts_.poller.fresh();
  return json_answer(queues_document(parts_.redis, *readings, parts_.history), readings->failing_since ? 503 : 200);
}

HttpAnswer Routes::queue(const std::string& name) const {
  const auto readings = parts_.poller.fresh();
  const QueueReading* reading = readings->find(name);
  const bool reachable = !readings->failing_since;
  std::optional<delayqueue::MessageInfo> first_unack, first_dead;
  QueueReading own;  // of a queue that is new, or beyond those that are polled
  if (reachable) {
    const auto inspector = parts_.reads.existing(name);
    if (reading == nullptr) {
      own.queue = name;
      own.state = read_state(*inspector);
      own.oldest = oldest_of(own.state);
      reading = &own;
    }
    if (reading->error.empty()) {
      first_unack = first_message(*inspector, delayqueue::State::unack, reading->state.counts.unack);
      first_dead = first_message(*inspector, delayqueue::State::dead, reading->state.counts.dead);
    }
  }
  if (reading == nullptr) throw HttpError(503, "cannot read the queue: " + readings->error);
  Object object = queue_fields(*reading, parts_.history.size(name));
  object.append(stats_fields(*reading, first_unack, first_dead)).add("read_at", readings->read_at);
  object.add("redis", redis_object(parts_.redis, *readings));
  return json_answer(object, reachable ? 200 : 503);
}

Object Routes::history(const std::string& queue) const {
  const std::vector<Minute> minutes = parts_.history.minutes(queue);
  if (minutes.empty()) parts_.reads.existing(queue);
  std::vector<Object> objects;
  objects.reserve(minutes.size());
  for (const Minute& minute : minutes) objects.push_back(minute_object(minute));
  return Object().add("queue", queue).add("minutes", objects);
}

Object Routes::server() const {
  const auto readings = parts_.poller.fresh();
  Object object;
  object.add("version", delayqueue::version()).add("started", started_).add("now", std::chrono::system_clock::now());
  object.add("allow_changes", parts_.access.allows_changes()).add("payloads", parts_.reads.shows_payloads());
  object.add("token", parts_.access.needs_token()).add("queues", readings->queues.size());
  object.add("listeners", parts_.events.listeners());
  return object.add("redis", redis_object(parts_.redis, *readings));
}

Object Routes::audit() const {
  std::vector<Object> objects;
  for (const ServedChange& change : parts_.audit.latest()) objects.push_back(change_object(change));
  Object object;
  object.add("changes", objects);
  try {
    return object.add_json("actions", parts_.command_reads.actions(parts_.audit.total()));
  } catch (const delayqueue::Error&) {  // Redis is away, or refuses it
    return object.add_null("actions");
  } catch (const HttpError&) {
    return object.add_null("actions");
  }
}

HttpAnswer Routes::events() const {
  const std::string first = queues_document(parts_.redis, *parts_.poller.fresh(), parts_.history).text();
  const auto listener = parts_.events.listen(first, [&poller = parts_.poller] { poller.ask(); });
  if (listener == nullptr) {
    throw HttpError(503, "cannot send events: " + std::to_string(Events::kMostListeners) +
                             " clients listen already; close a page, or read /api/queues");
  }
  HttpAnswer answer = text_answer("text/event-stream", "");
  answer.events = [listener] { return listener->next(); };
  return answer;
}

}  // namespace dqctl
