// The code of docs/guide/custom_ops.md.
#include <cstdlib>

#include <dlfcn.h>

#include "tests/docs/pages.h"
#include "troupe/registration.h"
#include "troupe/troupe.h"

namespace troupe {
namespace {

BOOST_AUTO_TEST_CASE(a_library_is_loaded) {
  const std::string path = TROUPE_SCALED_TANH;
  {
    const Scope root = Scope::NewRootScope();
    EmitOp(root, "ScaledTanh", {Const(root, 1.0f)});
    BOOST_TEST(!root.ok());  // not loaded yet
  }
  // [load]
  void* library = dlopen(path.c_str(), RTLD_NOW);
  if (library == nullptr) std::cerr << dlerror() << "\n";
  for (const std::string& error : RegistrationErrors()) std::cerr << error << "\n";

  Scope root = Scope::NewRootScope();
  Output x = Const(root, {0.0f, 1.0f});
  Output y = EmitOp(root.WithOpName("y"), "ScaledTanh", {x}, {{"scale", 2.0f}}).output(0);
  Output slope = Gradients(root, {y}, {x})[0];
  // [/load]
  BOOST_REQUIRE(library != nullptr);
  BOOST_TEST(RegistrationErrors().empty());
  BOOST_REQUIRE_MESSAGE(root.ok(), root.status());
  std::unique_ptr<Session> session = *Session::Create();
  absl::Status s = session->Extend(*root.graph());
  std::vector<Tensor> out;
  if (s.ok()) s = session->Run({}, {y, slope}, {}, &out);
  BOOST_REQUIRE_MESSAGE(s.ok(), s);
  BOOST_TEST(std::abs(out[0].flat<float>()[1] - 2 * std::tanh(1.0f)) < 1e-6f);
  BOOST_TEST(std::abs(out[1].flat<float>()[1] - 2 * (1 - std::tanh(1.0f) * std::tanh(1.0f))) < 1e-6f);
  BOOST_TEST(out[1].flat<float>()[0] == 2);
}

}  // namespace
}  // namespace troupe
