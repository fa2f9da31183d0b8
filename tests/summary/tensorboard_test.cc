// TensorBoard itself shows what FileWriter has written: it is started on the loopback address, and
// asked over HTTP for scalars, a histogram, an image and the graph. Needs a Python with
// tensorboard, which TROUPE_TENSORFLOW_PYTHON names (python3 otherwise); without one the test says
// that it is skipped. It takes no more than two minutes, and ends what it has started.
#include <boost/test/unit_test.hpp>
#include <string>

#include "tests/common/check_ok.h"
#include "tests/common/folder.h"
#include "tests/common/python.h"
#include "troupe/train/file_writer.h"
#include "troupe/troupe.h"

namespace troupe {
namespace tensorboard_test {

using train::FileWriter;

// A graph, and two steps with a scalar, a histogram and an image of 2 x 3 pixels each.
void WriteRun(const std::string& folder) {
  const auto writer = FileWriter::Create(folder);
  REQUIRE_OK(writer.status());
  const Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat, {.shape = {-1}});
  const Output y = ops::Square(root.WithOpName("y"), x);
  const Output picture = ops::Placeholder(root.WithOpName("picture"), DType::kUint8, {.shape = {1, 2, 3, 1}});
  const Output all =
      ops::MergeSummary(root, {ops::ScalarSummary(root, "mean", ops::Mean(root, y)),
                               ops::HistogramSummary(root, "values", y), ops::ImageSummary(root, "pixels", picture)});
  REQUIRE_OK(root.status());
  REQUIRE_OK((*writer)->AddGraph(*root.graph()));
  const auto session = *Session::Create();
  REQUIRE_OK(session->Extend(*root.graph()));
  for (int step = 1; step <= 2; ++step) {
    const Tensor pixels = Tensor::Of<uint8_t>({0, 51, 102, 153, 204, 255}, TensorShape({1, 2, 3, 1}));
    std::vector<Tensor> out;
    const Feeds feeds = {{x.name(), Tensor::Vector<float>({1, 2, static_cast<float>(step)})}, {picture.name(), pixels}};
    REQUIRE_OK(session->Run(feeds, {all}, {}, &out));
    REQUIRE_OK((*writer)->AddSummary(out[0].scalar<std::string>(), step));
    REQUIRE_OK((*writer)->AddScalar("loss", 1.0f / static_cast<float>(step), step));
  }
  REQUIRE_OK((*writer)->Close());
}

// Starts TensorBoard, asks it, and prints its answers. Ends with 77 when there is no tensorboard.
constexpr char kAsk[] = R"(
import importlib.util, json, signal, subprocess, sys, threading, time, urllib.parse, urllib.request
if importlib.util.find_spec("tensorboard") is None:
  sys.exit(77)
signal.signal(signal.SIGTERM, lambda *_: sys.exit("it took too long"))
end = time.monotonic() + 100
board = subprocess.Popen([sys.executable, "-m", "tensorboard.main", "--logdir", "events", "--host", "127.0.0.1", "--port", "0", "--load_fast", "false"],
                         stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
said = []
def listen():
  for line in board.stderr:
    said.append(line)
threading.Thread(target=listen, daemon=True).start()

def wait_for(what, get):
  while time.monotonic() < end:
    found = get()
    if found:
      return found
    if board.poll() is not None:
      break
    time.sleep(0.2)
  sys.exit("TensorBoard gave no %s: %s" % (what, "".join(said)[-2000:]))

def address():
  for line in said:
    for word in line.split():
      if word.startswith("http://"):
        return word.rstrip("/")

direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
def ask(path, **arguments):
  with direct.open(base + "/data/" + path + ("?" + urllib.parse.urlencode(arguments) if arguments else ""), timeout=20) as answer:
    return answer.read()
def ask_json(path, **arguments):
  return json.loads(ask(path, **arguments))

try:
  base = wait_for("address", address)
  # It reads the files after it has begun to answer; the last tag of the last step comes last.
  wait_for("run", lambda: "loss" in ask_json("plugin/scalars/tags").get(".", {}) and len(ask_json("plugin/scalars/scalars", run=".", tag="loss")) == 2)
  print("runs", ask_json("runs"))
  for tag in sorted(ask_json("plugin/scalars/tags")["."]):
    print(tag, [(step, value) for _, step, value in ask_json("plugin/scalars/scalars", run=".", tag=tag)])
  for tag in sorted(ask_json("plugin/histograms/tags")["."]):
    for _, step, buckets in ask_json("plugin/histograms/histograms", run=".", tag=tag):
      print(tag, step, sum(b[2] for b in buckets), "from", buckets[0][0] <= 1, "to", buckets[-1][1] >= 4)
  for tag in sorted(ask_json("plugin/images/tags")["."]):
    for image in ask_json("plugin/images/images", run=".", tag=tag, sample=0):
      png = ask("plugin/images/individualImage?" + image["query"])
      print(tag, image["step"], png[1:4].decode(), int.from_bytes(png[16:20], "big"), "x", int.from_bytes(png[20:24], "big"))
  print("graph of", [run for run, tags in ask_json("plugin/graphs/info").items() if tags["run_graph"]])
  text = ask("plugin/graphs/graph", run=".", conceptual="false").decode()
  print("nodes", sorted(n for n in ("x", "y", "picture") if 'name: "%s"' % n in text))
finally:
  board.terminate()
  try:
    board.wait(10)
  except subprocess.TimeoutExpired:
    board.kill()
    board.wait()
)";

BOOST_AUTO_TEST_CASE(tensorboard_shows_the_file) {
  const testing::Folder folder;
  WriteRun(folder.path() + "/events");
  const std::optional<std::string> out = testing::RunPythonProgram(folder.path(), kAsk, "tensorboard");
  if (!out) return;
  BOOST_TEST(*out == R"(runs ['.']
loss [(1, 1.0), (2, 0.5)]
mean [(1, 2.0), (2, 3.0)]
values 1 3.0 from True to True
values 2 3.0 from True to True
pixels/image/0 1 PNG 3 x 2
pixels/image/0 2 PNG 3 x 2
graph of ['.']
nodes ['picture', 'x', 'y']
)");
}

}  // namespace tensorboard_test
}  // namespace troupe
