// No error repeats a password, and no command of `work` receives one.
#include "preamble.h"

using Strings = std::vector<std::string>;

TEST_CASE("secrets: a password in the wrong place of the command line is in no error, in any output form") {
  test::empty_server();
  const std::vector<Strings> places = {
      {"queues", "--password", "s3cret"},
      {"--password", "s3cret", "queues"},
      {"queues", "--password=s3cret"},
      {"queues", "-ps3cret"},
      {"queues", "-p", "s3cret"},
      {"queues", "s3cret"},
      {"stats", "q", "--user", "me", "--pass", "s3cret"},
      {"purge", "q", "--state", "dead", "--yes=s3cret"},
      {"queues", "--password-file", "s3cret"},
      {"queues", "--password-file", "/no/such/s3cret"},
      {"queues", "-u", "redis://:s3cret@127.0.0.1:1"},
      {"queues", "-u", "redis://me:s3cret@127.0.0.1:1/0"},
      {"queues", "-u", "redis:/:s3cret@host"},
      {"queues", "-u", "redis:s3cret@host"},
      {"queues", "-u", ":s3cret@host"},
      {"queues", "-u", "me:s3cret@host:1"},
      {"queues", "-u", "redis://host/0?password=s3cret"},
      {"queues", "-u", "http://me:s3cret@host"},
      {"queues", "-u", "unix://me:s3cret@/no/such"},
  };
  for (const Strings& place : places) {
    for (const char* form : {"table", "json", "ndjson"}) {
      Strings words = {"-o", form};
      words.insert(words.end(), place.begin(), place.end());
      const Ran ran = run(words);
      CAPTURE(ran.err);
      CHECK(ran.code != 0);
      CHECK_FALSE(ran.err.empty());
      CHECK_FALSE(has(ran.out + ran.err, "s3cret"));
    }
  }
  CHECK(has(run({"queues", "--password", "s3cret"}).err, "no option --password; 1 argument too many"));
}

TEST_CASE("secrets: a malformed address with a password is in no error") {
  for (const char* uri :
       {"redis:/:s3cret@host", "redis:s3cret@host", ":s3cret@host", "me:s3cret@host:1", "redis://me:s3cret@127.0.0.1:1",
        "redis://host/0?password=s3cret", "http://me:s3cret@host", "redis+sentinel://me:s3cret@127.0.0.1:1/m",
        "redis+cluster://me:s3cret@127.0.0.1:1", "\"redis://me:s3cret@127.0.0.1:1\"", "'redis://s3cret@127.0.0.1:1'",
        "redis://me:s3cret@h\n", "\xef\xbb\xbfredis://me:s3cret@h", "redis://s3cret@127.0.0.1:1",
        "valkey://me:s3cret@127.0.0.1:1", "unix://s3cret@/no/such"}) {
    DqctlOptions options;
    options.environment["DELAYQUEUE_URI"] = uri;
    for (const Strings& words :
         {Strings{"queues"}, Strings{"stats", "q"}, Strings{"doctor"}, Strings{"queues", "--names"}}) {
      const Ran ran = run(words, options);
      CAPTURE(uri);
      CAPTURE(ran.err);
      CHECK(ran.code != 0);
      CHECK_FALSE(has(ran.out + ran.err, "s3cret"));
    }
  }
}

TEST_CASE("secrets: work runs its commands without the variables that open the queue") {
  test::empty_server();
  test::send("q", {"x"});
  DqctlOptions options;
  options.environment["DELAYQUEUE_URI"] = test::server().url();
  options.environment["DELAYQUEUE_SENTINEL_PASSWORD"] = "s3cret";
  options.environment["OF_THE_COMMAND"] = "kept";
  expect(run({"work", "q", "--exec", "env", "--until-empty"}, options), 0,
         {out_has("DQ_QUEUE=q\n"), out_has("OF_THE_COMMAND=kept\n"), out_lacks("DELAYQUEUE_URI"), out_lacks("s3cret")});

  test::redis().cmd({"ACL", "SETUSER", "worker", "on", ">s3cret", "~*", "&*", "+@all"});
  options.environment["DELAYQUEUE_PASSWORD"] = "s3cret";
  test::send("q", {"x"});
  expect(run({"work", "q", "--user", "worker", "--exec", "env", "--until-empty"}, options), 0,
         {out_has("DQ_QUEUE=q\n"), out_lacks("DELAYQUEUE_PASSWORD"), out_lacks("s3cret")});
  test::redis().cmd({"ACL", "DELUSER", "worker"});
}

TEST_CASE("secrets: the error for a command that cannot be run does not repeat the command") {
  test::empty_server();
  test::send("q", {"x"});
  expect(run({"work", "q", "--exec", "/no/such/program --token=s3cret", "--until-empty"}), 1,
         {err_has("the command cannot be run"), err_lacks("s3cret")});
}
