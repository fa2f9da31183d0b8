// troupe: runs graphs and shows what there is.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <limits>
#include <exception>
#include <new>
#include <sstream>
#include <system_error>

#include <unistd.h>

#include "tools/troupe/commands.h"
#include "tools/troupe/output.h"

namespace {

using namespace troupe::tool;

constexpr const char* kAbout = R"(Runs dataflow graphs in TensorFlow's GraphDef form, and shows ops and graphs.

Ends with 0 when all went well, 1 when it failed (the reason stands on stderr), 2 when the command line makes
no sense, and 3 when a step needs ops that do not exist here (all of them are listed). Output that cannot be
written is a failure.)";

constexpr const char* kRunAbout = R"(Runs a graph once, or again and again with --repeat, and prints what was fetched.

VALUE is a scalar or a nested list, in the type of what is fed: 3, [[1, 2], [3, 4.5]], ["a", "b"], true, 1+2j, nan.)";

constexpr const char* kServeAbout = R"(Runs the server of one task of a cluster, until SIGINT or SIGTERM.

When it listens, it prints one line, with its devices. It keeps a connection to each other task, sees which of
them are alive, and runs steps for them and for sessions of other processes, which name it as their target.)";

constexpr const char* kTraceAbout =
    R"(Says what the time of the steps in a trace was spent on: their critical path, and the longest stalls.

FILE comes from `troupe run --trace`, from a program (troupe/timeline.h), or from this command's --out.)";

constexpr const char* kTuneAbout =
    R"(Runs a graph until it has been tried which way each of its products and convolutions takes the least time here.

Prints these ways with their times, the chosen one, and the time of a step with the fixed choice and with the
chosen ones. With --cache the choices are kept in a file, for TROUPE_TUNE_CACHE (docs/guide/tuning.md).)";

// What the current exception says, for a reader who knows nothing of C++.
std::string ExceptionText() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return "out of memory";
  } catch (const std::system_error& e) {
    if (e.code() == std::errc::resource_unavailable_try_again)
      return std::string("the system refuses another thread or its memory: ") + e.what();
    return e.what();
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "an exception of a type of its own";
  }
}

// A check of which the help says nothing in its own words.
CLI::Validator Quiet(CLI::Validator check) { return check.description(""); }

// For an exception that nobody catches: one of another thread, or within a destructor.
[[noreturn]] void Terminate() {
  const std::string text =
      std::current_exception() != nullptr ? ExceptionText() : "it was ended from within (std::terminate)";
  std::fprintf(stderr, "troupe: the program cannot go on: %s\n", text.c_str());
  ::_exit(kFailed);
}

void AddTls(CLI::App* c, TlsFlags* tls) {
  c->add_option("--tls_certificate", tls->certificate,
                "Encrypt connections: a file (PEM) with the certificate of this process, and those between it and a CA "
                "(TROUPE_TLS_CERTIFICATE)");
  c->add_option("--tls_key", tls->key, "The file with its key (TROUPE_TLS_KEY)");
  c->add_option("--tls_ca", tls->ca,
                "A file, or a folder of files, with the CAs to trust (TROUPE_TLS_CA_FILE, TROUPE_TLS_CA_FOLDER)");
  c->add_option("--tls_passphrase_file", tls->passphrase_file,
                "A file whose first line is the passphrase of the key (TROUPE_TLS_PASSPHRASE_FILE; "
                "TROUPE_TLS_PASSPHRASE is the passphrase itself)");
  c->add_option("--tls_peer_name", tls->peer_name,
                "A DNS name that the certificates of all others must have (TROUPE_TLS_PEER_NAME)");
}

template <class Command>
void AddRun(const Command& command, RunFlags* run) {
  CLI::App* r = command("run", kRunAbout, [run] { return RunCommand(*run); });
  r->add_option("GRAPH", run->graph, "A GraphDef file, binary (.pb) or text (.pbtxt), or the folder of a SavedModel")
      ->required();
  r->add_option("--signature", run->signature,
                "Of a SavedModel: the signature whose keys --feed and --fetch name (serving_default, or the only one)");
  r->add_option("--tags", run->tags, "Of a SavedModel: the tags of the graph, with commas (serve)")->delimiter(',');
  r->add_option("--feed", run->feeds, "NAME[:PORT]=VALUE or NAME[:PORT]=@FILE.npy; may be given again")
      ->allow_extra_args(false);
  r->add_option("--fetch", run->fetches, "NAME[:PORT] of a tensor to fetch; may be given again")
      ->allow_extra_args(false);
  r->add_option("--target", run->targets, "NAME of a node to run; may be given again")->allow_extra_args(false);
  r->add_option("--init", run->inits,
                "NAME of a node to run once, in a step before; given again, in further steps, in order")
      ->allow_extra_args(false);
  r->add_option(
      "--out", run->out,
      "Write the fetched tensors to DIR/0.npy, DIR/1.npy, ... in the order of the fetches (bfloat16 as float32)");
  r->add_option("--repeat", run->repeat, "Run so many times more, after a warm-up, and tell the time of one run")
      ->check(Quiet(CLI::Range(1, 1000000000)));
  r->add_option(
      "--server", run->server,
      "Run it in a server of a cluster, troupe://HOST:PORT (or the first that answers of HOST:PORT,HOST:PORT)");
  AddTls(r, &run->tls);
  r->add_option("--threads", run->threads, "Busy threads in all; 0 = one per hardware thread")
      ->check(Quiet(CLI::Range(0, 1024)));
  r->add_option("--timeout", run->timeout_ms, "Deadline of each step in milliseconds; 0 = none")
      ->check(Quiet(CLI::Range(int64_t{0}, int64_t{1} << 40)));
  r->add_option("--memory_limit", run->memory_limit, "Most bytes that tensors may take; 0 = no limit")
      ->check(Quiet(CLI::Range(int64_t{0}, std::numeric_limits<int64_t>::max())));
  r->add_option("--trace", run->trace, "Write what ran when to FILE, for chrome://tracing and troupe trace");
  r->add_flag("--memory", run->memory,
              "Tell the most memory that the tensors of a step take, predicted from shapes and measured");
  r->add_flag("--check_numerics", run->check_numerics,
              "Fail at the first NaN or infinity that a node computes or that a variable is to be given");
  r->add_option("--numerics_folder", run->numerics_folder,
                "Write the inputs of the node that --check_numerics finds into a new folder below this one");
  r->add_flag("--json", run->json, "Print one JSON object: `fetches`, with every element, and `timing` with --repeat");
  r->add_flag("--full", run->full, "Print every element of tensors with more than 1000, too");
}

template <class Command>
void AddTune(const Command& command, TuneFlags* tune) {
  CLI::App* t = command("tune", kTuneAbout, [tune] { return TuneCommand(*tune); });
  t->add_option("GRAPH", tune->run.graph, "As of `troupe run`: a GraphDef file, or the folder of a SavedModel")
      ->required();
  t->add_option("--signature", tune->run.signature, "Of a SavedModel: the signature whose keys are named");
  t->add_option("--tags", tune->run.tags, "Of a SavedModel: the tags of the graph, with commas (serve)")
      ->delimiter(',');
  t->add_option("--shape", tune->shapes,
                "NAME[:PORT]=SIZE,SIZE,...: feed numbers of this shape; may be given again. Placeholders whose shape "
                "the graph knows are fed without it, with 1 where a size is open")
      ->allow_extra_args(false);
  t->add_option("--feed", tune->run.feeds, "NAME[:PORT]=VALUE or NAME[:PORT]=@FILE.npy; may be given again")
      ->allow_extra_args(false);
  t->add_option("--fetch", tune->run.fetches, "NAME[:PORT] of a tensor to fetch; may be given again")
      ->allow_extra_args(false);
  t->add_option("--target", tune->run.targets, "NAME of a node to run; may be given again")->allow_extra_args(false);
  t->add_option("--init", tune->run.inits, "NAME of a node to run once, in a step before; may be given again")
      ->allow_extra_args(false);
  t->add_option("--threads", tune->run.threads, "Busy threads in all; 0 = one per hardware thread")
      ->check(Quiet(CLI::Range(0, 1024)));
  t->add_option("--cache", tune->cache, "Take the choices of FILE, if it is there, and write all of them into it");
  t->add_flag("--same_bits", tune->same_bits, "Try only ways that have the bits of the fixed choice");
  t->add_option("--most_runs", tune->most_runs, "Stop after so many runs in any case (1000)")
      ->check(Quiet(CLI::Range(1, 1000000)));
  t->add_flag("--json", tune->json, "Print a JSON object");
}

template <class Command>
void AddOps(const Command& command, OpsFlags* ops) {
  CLI::App* o = command("ops", "Lists the ops there are: signature, attrs, types of the CPU kernels, documentation.",
                        [ops] { return OpsCommand(*ops); });
  o->add_option("NAME", ops->names, "Ops to show (all without one)");
  o->add_flag("--names", ops->names_only, "Only the names");
}

template <class Command>
void AddGraph(const Command& command, GraphFlags* graph) {
  CLI::App* g = command("graph", "Shows a graph, one line a node, as it is or after passes.",
                        [graph] { return GraphCommand(*graph); });
  g->add_option("GRAPH", graph->graph, "A GraphDef file, binary (.pb) or text (.pbtxt)")->required();
  g->add_option("--after", graph->passes,
                "Show the graph after this pass: prune, cse, fold; may be given again, in order")
      ->check(CLI::IsMember({"prune", "cse", "fold"}))
      ->allow_extra_args(false);
  g->add_option("--feed", graph->feeds, "For prune: NAME[:PORT] of a tensor that will be fed")->allow_extra_args(false);
  g->add_option("--fetch", graph->fetches, "For prune: NAME[:PORT] of a tensor to fetch")->allow_extra_args(false);
  g->add_option("--target", graph->targets, "For prune: NAME of a node to run")->allow_extra_args(false);
  g->add_flag("--dot", graph->dot, "As a graph for Graphviz");
}

template <class Command>
void AddCheckpoint(const Command& command, CheckpointFlags* checkpoint) {
  CLI::App* c = command(
      "checkpoint", "Lists checkpoints of a folder or tensors of a checkpoint; prints, renames or compares tensors.",
      [checkpoint] { return CheckpointCommand(*checkpoint); });
  c->add_option("CHECKPOINT", checkpoint->checkpoint,
                "A checkpoint by its prefix or one of its files, or a folder: with other options its newest one")
      ->required();
  c->add_option("--print", checkpoint->names, "Print the values of this tensor; may be given again")
      ->allow_extra_args(false);
  c->add_flag("--full", checkpoint->full, "Print every element of tensors with more than 1000, too");
  c->add_option("--against", checkpoint->against, "Compare with this one; ends with 1 when they differ");
  c->add_option("--rename", checkpoint->renames, "OLD=NEW: in the copy that --out names; may be given again")
      ->allow_extra_args(false);
  c->add_option("--out", checkpoint->out, "Write a copy with this prefix");
}

template <class Command>
void AddTrace(const Command& command, TraceFlags* trace) {
  CLI::App* t = command("trace", kTraceAbout, [trace] { return TraceCommand(*trace); });
  t->add_option("FILE", trace->files, "A trace; several of one run are put together")->required();
  t->add_option("--step", trace->step, "The number of a step: say nothing of others")
      ->check(Quiet(CLI::Range(int64_t{1}, int64_t{1} << 53)));
  t->add_option("--out", trace->out, "Write all files as one, in one clock, for chrome://tracing");
  t->add_flag("--json", trace->json, "Print a JSON object");
}

template <class Command>
void AddServers(const Command& command, ServeFlags* serve, StatusFlags* status) {
  CLI::App* s = command("serve", kServeAbout, [serve] { return ServeCommand(*serve); });
  s->add_option("--cluster", serve->cluster,
                "ps=HOST:PORT;worker=HOST:PORT,HOST:PORT, or a file with that or with a ClusterDef as text");
  s->add_option("--job", serve->job, "The job of this task");
  s->add_option("--task", serve->task, "Its number");
  s->add_option("--from", serve->from, "Take cluster, job and task from these variables of the environment")
      ->check(CLI::IsMember({"tf_config", "slurm"}));
  s->add_option("--slurm_port", serve->slurm_port, "With --from slurm: the port of the first task of each node")
      ->check(Quiet(CLI::Range(1, 65535)));
  s->add_option("--bind", serve->bind,
                "Listen at the interface with this address, of this machine alone without TLS or --insecure");
  AddTls(s, &serve->tls);
  s->add_flag("--insecure", serve->insecure,
              "Allow addresses of other machines, although connections are neither encrypted nor authenticated");
  s->add_flag("--no_shared_memory", serve->no_shared_memory,
              "Send big tensors through the connection to servers of this host, too");
  s->add_option("--threads", serve->threads, "Threads that compute; 0 = one per hardware thread")
      ->check(Quiet(CLI::Range(0, 1024)));
  s->add_option("--memory_limit", serve->memory_limit, "Most bytes that tensors may take; 0 = no limit")
      ->check(Quiet(CLI::Range(int64_t{0}, std::numeric_limits<int64_t>::max())));
  s->add_option("--most_sessions", serve->most_sessions, "Most sessions of clients (1000)")
      ->check(Quiet(CLI::Range(0, 1000000)));
  s->add_option("--most_sessions_of_client", serve->most_sessions_of_client, "Most of one client process (100)")
      ->check(Quiet(CLI::Range(0, 1000000)));
  s->add_option("--heartbeat", serve->heartbeat_ms, "Milliseconds from one heartbeat to the next (200)")
      ->check(Quiet(CLI::Range(10, 60000)));
  s->add_option("--stop_within", serve->stop_within_ms, "Milliseconds in which to say goodbye at the end")
      ->check(Quiet(CLI::Range(0, 600000)));
  s->add_flag("--json", serve->json, "Print the line as a JSON object");
  CLI::App* a = command(
      "status",
      "Prints devices and sessions of the server at ADDRESS, and which tasks it sees, and whether they are alive.",
      [status] { return StatusCommand(*status); });
  a->add_option("ADDRESS", status->address, "HOST:PORT of a server")->required();
  AddTls(a, &status->tls);
  a->add_option("--timeout", status->timeout_ms, "Milliseconds to wait for it")->check(Quiet(CLI::Range(1, 600000)));
  CLI::Option* json = a->add_flag("--json", status->json, "Print a JSON object");
  a->add_flag("--metrics", status->metrics, "Print metrics in the text form of Prometheus")->excludes(json);
}

constexpr const char* kClusterAbout =
    R"(Runs a cluster on this machine, as processes under a supervisor, and asks about it.

`up` stays until the programs have ended, and prints what becomes of them; `status`, `logs` and `down` are for
another terminal. All that is known of the cluster is in the folder --dir.)";

constexpr const char* kUpAbout = R"(Starts a cluster: a program for each job that has one, and servers for the others.

CLUSTER is addresses, ps=HOST:PORT;worker=HOST:PORT,HOST:PORT, or a file with these or with a ClusterDef as text, or
numbers of tasks, ps=1;worker=2, which get free ports. In a program's command {cluster}, {job}, {task}, {address}
and {dir} are filled in. Programs are started again when they fail, servers always; when all programs have ended
well, the servers are stopped, and the status is 0. SIGINT and SIGTERM stop all in order, the second one at once.)";

void AddCluster(CLI::App* c, ClusterUpFlags* up, ClusterAskFlags* ask) {
  c->require_subcommand(1);
  CLI::App* u = c->add_subcommand("up", kUpAbout);
  u->add_option("CLUSTER", up->cluster, "A file, addresses, or numbers of tasks")->required();
  u->add_option("--program", up->programs, "JOB=COMMAND; may be given again")->allow_extra_args(false);
  u->add_option("--restart", up->restarts, "JOB=always, on-failure or never; may be given again")
      ->allow_extra_args(false);
  u->add_option("--most_restarts", up->most_restarts, "Of a process within a minute; one more ends the cluster (10)")
      ->check(Quiet(CLI::Range(0, 1000000)));
  u->add_option("--stop_within", up->stop_within_ms, "Milliseconds that processes have to end (10000)")
      ->check(Quiet(CLI::Range(0, 3600000)));
  u->add_option("--threads", up->threads, "Threads of each server; 0 = one per hardware thread")
      ->check(Quiet(CLI::Range(0, 1024)));
  u->add_option("--heartbeat", up->heartbeat_ms, "Milliseconds between the heartbeats of servers (200)")
      ->check(Quiet(CLI::Range(10, 60000)));
  u->add_flag("--tls", up->tls,
              "Encrypt the connections, by a certificate that is made for this cluster, in the folder tls of --dir");
  u->add_option("--kill", up->kills,
                "ROLE[:TASK]@STEP: kill this process when a program reports the step; ROLE is a job, or chief, which "
                "is the first task of the first program; may be given again")
      ->allow_extra_args(false);
  u->add_option("--freeze", up->freezes, "ROLE[:TASK]@STEP[:MS]: stop it for so long instead (1000)")
      ->allow_extra_args(false);
  u->add_option("--join", up->joins, "ROLE[:TASK]@STEP: start this process only at the step; may be given again")
      ->allow_extra_args(false);
  u->add_option("--leave", up->leaves, "ROLE[:TASK]@STEP: tell it to end, by SIGTERM; may be given again")
      ->allow_extra_args(false);
  u->add_flag("--json", up->json, "Print a JSON object a line");
  CLI::App* s = c->add_subcommand("status", "Prints the processes of the cluster, and what they reported last.");
  s->add_flag("--json", ask->json, "Print a JSON object");
  CLI::App* l = c->add_subcommand("logs", "Prints the last lines of the processes' logs.");
  l->add_option("TASK", ask->task, "Of this one alone, as in worker:0");
  l->add_option("--lines", ask->lines, "So many of each (20)")->check(Quiet(CLI::Range(1, 1000000)));
  CLI::App* m =
      c->add_subcommand("certificate", "Makes a CA, and ca.crt, node.crt and node.key for encrypted connections.");
  m->add_option("FOLDER", ask->certificate, "Where to; it is made if it is missing")->required();
  CLI::App* d = c->add_subcommand("down", "Stops the cluster in order, and waits until it has ended.");
  d->add_option("--timeout", ask->timeout_ms, "Milliseconds to wait (60000)")->check(Quiet(CLI::Range(0, 3600000)));
  for (CLI::App* each : {s, l, d}) each->add_option("--dir", ask->dir, "The folder of the cluster (troupe_cluster)");
  u->add_option("--dir", up->dir, "The folder of the cluster (troupe_cluster)");
}

constexpr const char* kPlayAbout =
    R"(Starts the parts of a topology: servers, programs, models that are served, and actors.

FILE says which parts there are, and how each is started, restarted and wired to the others (docs/guide/play.md).
The command stays until the programs have ended, or, without programs, until it is told to end by SIGINT or
SIGTERM; the second one ends all at once. `troupe cluster status`, `logs` and `down` with the same --dir ask about
it. Roles of actors come from libraries (--load).)";

void AddPlay(CLI::App* c, PlayFlags* play) {
  c->add_option("FILE", play->file, "The topology");
  c->add_option("--dir", play->dir, "The folder of logs and state (troupe_play)");
  c->add_flag("--check", play->check, "Only say what would be started, or what is wrong");
  c->add_flag("--json", play->json, "Print a JSON object a line");
  c->add_option("--troupe_part", play->part, "")->group("");
}

int RunCluster(const CLI::App& app, const ClusterUpFlags& up, const ClusterAskFlags& ask) {
  const CLI::App* const c = app.get_subcommand("cluster");
  if (c->got_subcommand("status")) return ClusterStatusCommand(ask);
  if (c->got_subcommand("logs")) return ClusterLogsCommand(ask);
  if (c->got_subcommand("certificate")) return ClusterCertificateCommand(ask);
  if (c->got_subcommand("down")) return ClusterDownCommand(ask);
  return ClusterUpCommand(up);
}

int Run(int argc, char** argv) {
  CLI::App app(kAbout, "troupe");
  app.set_version_flag("--version", "troupe " TROUPE_VERSION);
  int code = kOk;
  std::vector<std::string> libraries;
  const auto command = [&](const char* name, const std::string& about, auto run) {
    CLI::App* c = app.add_subcommand(name, about);
    c->add_option("--load", libraries, "A shared library with ops to register before; may be given again")
        ->allow_extra_args(false);
    c->callback([&, run] {
      const absl::Status loaded = LoadLibraries(libraries);
      code = loaded.ok() ? run() : Complain(kFailed, loaded);
    });
    return c;
  };

  RunFlags run;
  AddRun(command, &run);
  TuneFlags tune;
  AddTune(command, &tune);
  OpsFlags ops;
  AddOps(command, &ops);
  GraphFlags graph;
  AddGraph(command, &graph);
  CheckpointFlags checkpoint;
  AddCheckpoint(command, &checkpoint);
  TraceFlags trace;
  AddTrace(command, &trace);
  ServeFlags serve;
  StatusFlags status_flags;
  AddServers(command, &serve, &status_flags);
  ClusterUpFlags up;
  ClusterAskFlags ask;
  AddCluster(command("cluster", kClusterAbout, [&] { return RunCluster(app, up, ask); }), &up, &ask);

  PlayFlags play;
  AddPlay(command("play", kPlayAbout,
                  [&] {
                    play.libraries = libraries;
                    return PlayCommand(play);
                  }),
          &play);

  constexpr const char* kCommands =
      "the commands are run, tune, ops, graph, checkpoint, trace, serve, status, cluster and play "
      "(troupe --help says more)";
  if (argc < 2) return Complain(kUsage, std::string("name a command: ") + kCommands);
  const std::string first = argv[1];
  if (!first.starts_with('-') && app.get_subcommands([&](CLI::App* c) { return c->get_name() == first; }).empty())
    return Complain(kUsage, "there is no command '" + first + "'; " + kCommands);
  app.require_subcommand(1);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    std::ostringstream out, err;
    const int status = app.exit(e, out, err);
    Print(out.str());
    std::fputs(err.str().c_str(), stderr);
    return status == 0 ? kOk : kUsage;
  }
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  PrepareStandardStreams();
  std::set_terminate(&Terminate);
  int code = kFailed;
  try {
    code = Run(argc, argv);
  } catch (...) {
    code = Complain(kFailed, ExceptionText());
  }
  const absl::Status printed = FinishPrinting();
  return printed.ok() || code != kOk ? code : Complain(kFailed, printed);
}
