// Clusters from texts, flags, TF_CONFIG and the variables of Slurm: what comes of right input, the
// sentence for wrong input with its place, and that changed input gives a value or an error.
#include "troupe/cluster.h"

#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <random>

#include "net/json.h"

namespace troupe {
namespace cluster_test {

constexpr const char* kText = R"(# Two servers of parameters, and two workers.
job {
  name: "ps"
  tasks { key: 0 value: "ps0.example.org:2222" }
  tasks { key: 1 value: "[::1]:2222" }
}
job { name: "worker" tasks { key: 7 value: "10.0.0.7:1" } tasks { key: 3 value: "w3:65535" } }
)";
constexpr const char* kFlags = "ps=ps0.example.org:2222,[::1]:2222;worker=3@w3:65535,7@10.0.0.7:1";

ReadVariable Variables(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const char* name) -> std::optional<std::string> {
    const auto it = values.find(name);
    return it == values.end() ? std::nullopt : std::optional<std::string>(it->second);
  };
}
// The flags of the cluster and its task, or the error.
std::string Shown(const absl::StatusOr<ServerSpec>& spec) {
  return spec.ok() ? StrCat(spec->cluster.ToFlags(), " ", spec->task.ToString()) : std::string(spec.status().message());
}
std::string Shown(const absl::StatusOr<ClusterSpec>& spec) {
  return spec.ok() ? spec->ToFlags() : std::string(spec.status().message());
}

BOOST_AUTO_TEST_SUITE(clusters)

BOOST_AUTO_TEST_CASE(a_cluster_is_the_same_in_each_form) {
  BOOST_TEST(Shown(ClusterSpec::FromText(kText)) == kFlags);
  const ClusterSpec spec = ClusterSpec::FromFlags(kFlags).value();
  BOOST_TEST(spec.ToFlags() == kFlags);
  BOOST_TEST(Shown(ClusterSpec::FromText(spec.ToText())) == kFlags);
  BOOST_TEST(spec.Id() == ClusterSpec::FromText(kText)->Id());
  BOOST_TEST(spec.Id() != ClusterSpec::FromFlags("ps=a:1")->Id());
  BOOST_TEST(spec.tasks().size() == 4u);
  BOOST_TEST(spec.AddressOf({"worker", 3})->ToString() == "w3:65535");
  BOOST_TEST(spec.AddressOf({"worker", 4}).status().message() == "job 'worker' has no task 4; it has: 3, 7");
  BOOST_TEST(spec.AddressOf({"chief", 0}).status().message() ==
             "the cluster has no job 'chief'; its jobs are: ps, worker");
}

BOOST_AUTO_TEST_CASE(wrong_text_is_told_with_line_and_column) {
  const std::pair<const char*, const char*> rows[] = {
      {"", "cluster: there is no task"},
      {"job {", "cluster, line 1, column 6: Expected identifier, got: "},
      {"job {\n  nam: 'ps'\n}",
       "cluster, line 2, column 6: Message type \"troupe.proto.JobDef\" has no field named \"nam\"."},
      {"job { name: 'ps'\n tasks { key: 0 value: 'a' } }",
       "cluster, line 2, column 2: the address 'a' is not host:port: there is no port"},
      {"job { name: 'ps'\n tasks { key: 0 value: 'a:1' }\n tasks { key: 0 value: 'b:1' } }",
       "cluster, line 3, column 2: task 0 of job 'ps' is given twice"},
      {"job { name: 'a' tasks { key: 0 value: 'a:1' } }\njob { name: 'b' tasks { key: 0 value: 'a:1' } }",
       "cluster, line 2, column 17: the address a:1 is that of /job:a/replica:0/task:0 already"},
      {"job { name: 'a' tasks { key: -1 value: 'a:1' } }",
       "cluster, line 1, column 17: task -1 of job 'a' is not between 0 and 1048576"},
      {"job { name: 'a' tasks { key: 0 value: 'a:1' } }\njob { name: 'a' }",
       "cluster, line 2, column 1: job 'a' is given twice"},
      {"job { name: '1a' tasks { key: 0 value: 'a:1' } }",
       "cluster, line 1, column 18: the job '1a' is no name: [A-Za-z][A-Za-z0-9_]*"},
  };
  for (const auto& [text, error] : rows) BOOST_TEST(Shown(ClusterSpec::FromText(text)) == error);
}

BOOST_AUTO_TEST_CASE(wrong_flags_are_told_with_their_column) {
  const std::pair<const char*, const char*> rows[] = {
      {"", "cluster, column 1: there is no task; a cluster looks like ps=host:port;worker=host:port,host:port"},
      {"ps", "cluster, column 3: '=' is missing after the job 'ps'"},
      {"ps=a:1,", "cluster, column 8: the address '' is not host:port: there is no port"},
      {"ps=a:1;", "cluster, column 8: a job is missing after ';'"},
      {"ps=a:1;ps=b:1", "cluster, column 8: job 'ps' is given twice"},
      {"ps=a:0", "cluster, column 4: the address 'a:0' is not host:port: a port is a number from 1 to 65535"},
      {"ps=a:65536", "cluster, column 4: the address 'a:65536' is not host:port: a port is a number from 1 to 65535"},
      {"ps=a:+1", "cluster, column 4: the address 'a:+1' is not host:port: a port is a number from 1 to 65535"},
      {"ps=::1:22",
       "cluster, column 4: the address '::1:22' is not host:port: an address of IPv6 stands in brackets, as in "
       "[::1]:2222"},
      {"ps=a b:1", "cluster, column 4: the address 'a b:1' is not host:port: the host has the character ' '"},
      {"ps=:1",
       "cluster, column 4: the address ':1' is not host:port: the host has no name, or one of more than 255 "
       "characters"},
      {"ps=a:1,x@b:1", "cluster, column 8: a number of a task stands before '@', 0 to 1048576"},
      {"ps=a:1,0@b:1", "cluster, column 8: task 0 of job 'ps' is given twice"},
  };
  for (const auto& [text, error] : rows) BOOST_TEST(Shown(ClusterSpec::FromFlags(text)) == error);
}

BOOST_AUTO_TEST_CASE(what_a_user_names_is_flags_or_a_file_of_either_form) {
  const std::string path = (std::filesystem::temp_directory_path() / StrCat("troupe_cluster_", ::getpid())).string();
  const auto of_file = [&](const std::string& text) {
    std::ofstream(path) << text;
    return Shown(ClusterSpec::FromFlagsOrFile(path));
  };
  BOOST_TEST(Shown(ClusterSpec::FromFlagsOrFile(kFlags)) == kFlags);
  BOOST_TEST(of_file(kText) == kFlags);
  BOOST_TEST(of_file("job < name: 'ps' tasks < key: 0 value: 'a:1' > >") == "ps=a:1");
  BOOST_TEST(of_file(StrCat("\n ", kFlags, " \r\n")) == kFlags);
  BOOST_TEST(of_file("ps=a") ==
             StrCat(path, ": cluster, column 4: the address 'a' is not host:port: there is no port"));
  BOOST_TEST(of_file("job {") == StrCat(path, ": cluster, line 1, column 6: Expected identifier, got: "));
  BOOST_TEST(
      of_file(" \n") ==
      StrCat(path,
             ": cluster, column 1: there is no task; a cluster looks like ps=host:port;worker=host:port,host:port"));
  std::filesystem::remove(path);
  const absl::Status none = ClusterSpec::FromFlagsOrFile(path).status();
  BOOST_TEST(absl::IsNotFound(none), none);
  BOOST_TEST(Shown(ClusterSpec::FromFlagsOrFile("ps=a")) ==
             "cluster, column 4: the address 'a' is not host:port: there is no port");
}

BOOST_AUTO_TEST_CASE(only_the_machine_itself_is_loopback) {
  for (const char* host : {"localhost", "127.0.0.1", "127.1.2.3", "::1"}) BOOST_TEST(HostPort({host, 1}).IsLoopback());
  for (const char* host :
       {"localhost.example.org", "128.0.0.1", "127.0.0", "127.0.0.256", "127.0.0.1.example.org", "::"})
    BOOST_TEST(!HostPort({host, 1}).IsLoopback());
}

BOOST_AUTO_TEST_CASE(a_server_knows_its_task_from_text) {
  BOOST_TEST(Shown(ServerSpecFromText(
                 "cluster { job { name: 'ps' tasks { key: 2 value: 'a:1' } } }\njob_name: 'ps'\n"
                 "task_index: 2 protocol: 'grpc' default_session_config { log_device_placement: true }")) ==
             "ps=2@a:1 /job:ps/replica:0/task:2");
  BOOST_TEST(Shown(ServerSpecFromText("cluster { job { name: 'ps' tasks { key: 2 value: 'a:1' } } } job_name: 'ps'")) ==
             "job_name and task_index: job 'ps' has no task 0; it has: 2");
  BOOST_TEST(Shown(ServerSpecFromText("job_name: 'ps'")) == "cluster: there is no task");
  BOOST_TEST(Shown(ServerSpecFromText("cluster {\n job { name: 'ps' tasks { key: 2 value: ':1' } } }")) ==
             "cluster, line 2, column 19: the address ':1' is not host:port: the host has no name, or one of more than "
             "255 characters");
}

BOOST_AUTO_TEST_CASE(tf_config_is_read_and_its_errors_name_their_place) {
  const std::pair<const char*, const char*> rows[] = {
      {R"({"cluster": {"worker": ["a:1", "b:1"], "ps": {"5": "c:1"}}, "task": {"type": "worker", "index": 1},
           "environment": "cloud", "more": [true, null, -1.5e3, {}]})",
       "ps=5@c:1;worker=a:1,b:1 /job:worker/replica:0/task:1"},
      {R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": "0"}})",
       "worker=a:1 /job:worker/replica:0/task:0"},
      {"", "TF_CONFIG: line 1, column 1: a value is missing"},
      {"{} x", "TF_CONFIG: line 1, column 4: there is more behind the value"},
      {"{}", "TF_CONFIG: line 1, column 1: an object \"cluster\" is expected"},
      {"{\"cluster\":\n [1]}", "TF_CONFIG: line 2, column 2: an object \"cluster\" is expected"},
      {"{\"cluster\": {}}", "TF_CONFIG: line 1, column 13: the cluster has no task"},
      {"{\"cluster\": {\"ps\": [\n  \"a\"]}}",
       "TF_CONFIG: line 2, column 3: the address 'a' is not host:port: there is no port"},
      {"{\"cluster\": {\"ps\": [1]}}", "TF_CONFIG: line 1, column 21: an address is a string, \"host:port\""},
      {"{\"cluster\": {\"ps\": 1}}",
       "TF_CONFIG: line 1, column 20: the tasks of a job are a list of addresses, or an object {\"index\": "
       "\"address\"}"},
      {"{\"cluster\": {\"ps\": {\"a\": \"a:1\"}}}", "TF_CONFIG: line 1, column 26: the key 'a' is no number of a task"},
      {"{\"cluster\": {\"ps\": [\"a:1\"]}}", "TF_CONFIG: line 1, column 1: an object \"task\" is expected"},
      {"{\"cluster\": {\"ps\": [\"a:1\"]}, \"task\": {}}",
       "TF_CONFIG: line 1, column 38: the task needs a \"type\", the name of its job"},
      {"{\"cluster\": {\"ps\": [\"a:1\"]}, \"task\": {\"type\": \"ps\", \"index\": 1.0}}",
       "TF_CONFIG: line 1, column 62: the task needs an \"index\", its number"},
      {"{\"cluster\": {\"ps\": [\"a:1\"]}, \"task\": {\"type\": \"ps\", \"index\": 4}}",
       "TF_CONFIG: line 1, column 38: job 'ps' has no task 4; it has: 0"},
      {"{\"a\": 1, \"a\": 2}", "TF_CONFIG: line 1, column 10: the key 'a' is given twice"},
      {"{\"a\" 1}", "TF_CONFIG: line 1, column 6: ':' is missing"},
      {"{\"a\": 1 1}", "TF_CONFIG: line 1, column 9: ',' or '}' is missing"},
      {"[1 1]", "TF_CONFIG: line 1, column 4: ',' or ']' is missing"},
      {"{\"a", "TF_CONFIG: line 1, column 2: the string does not end"},
      {"{a: 1}", "TF_CONFIG: line 1, column 2: a key in quotes is missing"},
      {"[tru]", "TF_CONFIG: line 1, column 2: a value is missing"},
      {"[\"\\x41\"]", "TF_CONFIG: line 1, column 3: there is no such escape"},
      {"[\"\\u004\"]", "TF_CONFIG: line 1, column 3: four hexadecimal digits are missing behind '\\u'"},
      {"[\"\\ud83d\\u0041\"]", "TF_CONFIG: line 1, column 3: half of a character stands alone"},
      {"[\"\n\"]", "TF_CONFIG: line 1, column 3: a control character stands in a string"},
  };
  for (const auto& [text, result] : rows)
    BOOST_TEST(Shown(ServerSpecFromTfConfig(Variables({{"TF_CONFIG", text}}))) == result);
  BOOST_TEST(Shown(ServerSpecFromTfConfig(Variables({{"TF_CONFIG", std::string(100, '[')}}))) ==
             "TF_CONFIG: line 1, column 34: values are nested too deep");
  const absl::Status none = ServerSpecFromTfConfig(Variables({})).status();
  BOOST_TEST((none.code() == absl::StatusCode::kNotFound));
  BOOST_TEST(none.message() == "the environment variable TF_CONFIG is not set");
}

BOOST_AUTO_TEST_CASE(node_lists_are_expanded_and_their_errors_name_the_column) {
  const auto expand = [](std::string_view list) {
    const auto hosts = ExpandNodeList(list);
    return hosts.ok() ? StrJoin(*hosts, " ") : std::string(hosts.status().message());
  };
  const std::pair<const char*, const char*> rows[] = {
      {"a", "a"},
      {"node[01-03,7],b-c.d", "node01 node02 node03 node7 b-c.d"},
      {"r[1-2]n[09-10]x", "r1n09x r1n10x r2n09x r2n10x"},
      {"n[8-11]", "n8 n9 n10 n11"},
      {"n[098-101]", "n098 n099 n100 n101"},
      {"", "column 1: the list is empty"},
      {"a,", "column 3: the name of a host is missing"},
      {",a", "column 1: the name of a host is missing"},
      {"a[1", "column 4: ']' is missing"},
      {"a[]", "column 3: a number of at most nine digits is missing"},
      {"a[1-]", "column 5: a number of at most nine digits is missing"},
      {"a[3-1]", "column 6: the range ends before it begins"},
      {"a[1;2]", "column 4: ',' or ']' is missing"},
      {"a b", "column 2: this character is in no name of a host"},
      {"a]", "column 2: this character is in no name of a host"},
      {"a[0-999999999]", "column 14: there are too many hosts"},
      {"a[0-999][0-999]", "column 15: there are too many hosts"},
      {"a[9999999999]", "column 13: a number of at most nine digits is missing"},
  };
  for (const auto& [list, result] : rows) BOOST_TEST(expand(list) == result);
}

BOOST_AUTO_TEST_CASE(a_slurm_step_is_a_cluster) {
  const auto read = [](std::map<std::string, std::string> values, std::vector<std::pair<std::string, int>> jobs = {}) {
    return Shown(ServerSpecFromSlurm({std::move(jobs), 2000}, Variables(std::move(values))));
  };
  const auto with = [](const char* list, const char* tasks, const char* rank, const char* per_node = nullptr) {
    std::map<std::string, std::string> v{{"SLURM_JOB_NODELIST", list}, {"SLURM_NTASKS", tasks}, {"SLURM_PROCID", rank}};
    if (per_node != nullptr) v["SLURM_TASKS_PER_NODE"] = per_node;
    return v;
  };
  BOOST_TEST(read(with("n[1-2]", "3", "1")) == "worker=n1:2000,n1:2001,n2:2000 /job:worker/replica:0/task:1");
  BOOST_TEST(read(with("n[1-3]", "4", "3", "1(x2),2"), {{"ps", 1}, {"worker", 3}}) ==
             "ps=n1:2000;worker=n2:2000,n3:2000,n3:2001 /job:worker/replica:0/task:2");
  BOOST_TEST(read(with("n1", "2", "0"), {{"ps", 0}, {"worker", 2}}) ==
             "worker=n1:2000,n1:2001 /job:worker/replica:0/task:0");
  BOOST_TEST(read({}) == "the environment variable SLURM_JOB_NODELIST is not set");
  BOOST_TEST(read({{"SLURM_JOB_NODELIST", "n1"}}) == "the environment variable SLURM_NTASKS is not set");
  BOOST_TEST(read(with("n[1", "3", "1")) == "SLURM_JOB_NODELIST: column 4: ']' is missing");
  BOOST_TEST(read(with("n1", "x", "1")) == "SLURM_NTASKS='x' is no number from 0 to 65536");
  BOOST_TEST(read(with("n1", "2", "-1")) == "SLURM_PROCID='-1' is no number from 0 to 65536");
  BOOST_TEST(read(with("n1", "2", "2")) == "SLURM_PROCID is 2, but SLURM_NTASKS is 2");
  BOOST_TEST(read(with("n1", "2", "0", "2(3)")) ==
             "SLURM_TASKS_PER_NODE: column 1: '2(3)' is no number of tasks such as 2 or 2(x3)");
  BOOST_TEST(read(with("n1", "2", "0", "1,1")) ==
             "SLURM_TASKS_PER_NODE has 2 tasks on 2 nodes, but SLURM_NTASKS is 2 and SLURM_JOB_NODELIST has 1 nodes");
  BOOST_TEST(read(with("n1", "2", "0"), {{"ps", 1}}) == "the jobs have 1 tasks, but SLURM_NTASKS is 2");
}

// Signs are changed, dropped, doubled and moved: each parser gives a value, which it can read back,
// or a sentence.
BOOST_AUTO_TEST_CASE(changed_input_gives_a_value_or_an_error) {
  std::mt19937 random(7);
  const std::string seeds[] = {
      kText, kFlags, "n[01-04,7],gpu[1-2]n[1-3]", "2(x3),1",
      R"({"cluster": {"worker": ["a:1", "b:1"], "ps": {"5": "c:1"}}, "task": {"type": "worker", "index": 1}})"};
  int good = 0, bad = 0;
  const auto count = [&](const auto& result) {
    ++(result.ok() ? good : bad);
    if (!result.ok()) BOOST_TEST(!result.status().message().empty());
  };
  for (int i = 0; i < 20000; ++i) {
    std::string text = seeds[i % std::size(seeds)];
    for (int changes = 1 + static_cast<int>(random() % 4); changes > 0 && !text.empty(); --changes) {
      const size_t at = random() % text.size();
      const char other = random() % 3 == 0 ? static_cast<char>(random()) : text[random() % text.size()];
      if (random() % 3 == 0)
        text.erase(at, 1 + random() % 3);
      else if (random() % 2 == 0)
        text.insert(at, 1, other);
      else
        text[at] = other;
    }
    const auto cluster = ClusterSpec::FromText(text);
    count(cluster);
    if (cluster.ok()) BOOST_TEST(ClusterSpec::FromText(cluster->ToText())->Id() == cluster->Id());
    const auto flags = ClusterSpec::FromFlags(text);
    count(flags);
    if (flags.ok()) BOOST_TEST(ClusterSpec::FromFlags(flags->ToFlags())->Id() == flags->Id());
    count(ServerSpecFromTfConfig(Variables({{"TF_CONFIG", text}})));
    count(ExpandNodeList(text));
    count(ServerSpecFromSlurm({}, Variables({{"SLURM_JOB_NODELIST", "n[1-4]"},
                                             {"SLURM_NTASKS", "7"},
                                             {"SLURM_PROCID", "0"},
                                             {"SLURM_TASKS_PER_NODE", text}})));
  }
  BOOST_TEST(good > 1000);
  BOOST_TEST(bad > 1000);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace cluster_test
}  // namespace troupe
