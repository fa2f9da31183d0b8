// The rows of docs/guide/from_tensorflow_1.md: "// | Python", and below it the same in C++.
#include "tests/docs/pages.h"
#include "troupe/import_export.h"
#include "troupe/proto/config.pb.h"
#include "troupe/proto/graph.pb.h"
#include "troupe/train/adagrad.h"
#include "troupe/train/embedding.h"
#include "troupe/train/ftrl.h"
#include "troupe/train/global_step.h"
#include "troupe/train/moving_average.h"
#include "troupe/train/rms_prop.h"
#include "troupe/troupe.h"

namespace troupe {
namespace {

std::unique_ptr<Session> SessionOf(const Scope& root) {
  BOOST_REQUIRE_MESSAGE(root.ok(), root.status());
  std::unique_ptr<Session> session = *Session::Create();
  const absl::Status s = session->Extend(*root.graph());
  BOOST_REQUIRE_MESSAGE(s.ok(), s);
  return session;
}

// The values of all, which must be there.
std::string Values(const Scope& root, const std::vector<Output>& fetches) {
  std::unique_ptr<Session> session = SessionOf(root);
  std::vector<Tensor> out;
  const absl::Status s = session->Run({}, fetches, {}, &out);
  BOOST_REQUIRE_MESSAGE(s.ok(), s);
  std::string text;
  for (const Tensor& t : out) text += t.DebugString() + "; ";
  return text;
}

BOOST_AUTO_TEST_CASE(graphs_and_tensors) {
  // | g = tf.Graph()
  Scope root = Scope::NewRootScope();

  const Output n = Const(root, 2);
  // | tf.constant([[1., 2.], [3., 4.]], name="a")
  Output a = Const(root.WithOpName("a"), {{1.0f, 2.0f}, {3.0f, 4.0f}});

  // | tf.constant([1, 2, 3], tf.float64)
  Output b = Const<double>(root, {1, 2, 3});

  // | tf.constant(0.5, shape=[2, 3])
  Output c = Const(root, 0.5f, TensorShape({2, 3}));

  // | tf.zeros([2, 3])
  Output zeros = Const(root, 0.0f, TensorShape({2, 3}));

  // | tf.zeros_like(a)
  Output like = ops::ZerosLike(root, a);

  // | tf.fill([n, 3], 1.)
  Output filled = ops::Fill(root, ops::Pack(root, {n, 3}), 1.0f);

  // | tf.range(0, 10, 2)
  Output range = ops::Range(root, 0, 10, 2);

  // | tf.linspace(0., 1., 5)
  Output line = ops::LinSpace(root, 0.0f, 1.0f, 5);

  // | tf.placeholder(tf.float32, [None, 3], name="x")
  Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat, {.shape = {-1, 3}});

  // | tf.placeholder(tf.float32, [])
  Output scalar = ops::Placeholder(root, DType::kFloat, {.shape = TensorShape()});

  // | tf.placeholder(tf.float32)
  Output any = ops::Placeholder(root, DType::kFloat);

  // | tf.placeholder_with_default(1., [])
  Output maybe = ops::PlaceholderWithDefault(root, 1.0f, TensorShape());

  // | with tf.name_scope("fc1"): y = tf.nn.relu(a)
  Output y = ops::Relu(root.NewSubScope("fc1"), a);

  // | with tf.device("/cpu:0"): y = tf.negative(a)
  y = ops::Neg(root.WithDevice("/cpu:0"), a);

  // | with tf.control_dependencies([y]): z = tf.identity(a)
  Output z = ops::Identity(root.WithControlDependencies(y), a);

  // | with tf.colocate_with(a): z = tf.negative(a)
  z = ops::Neg(root.ColocateWith(a), a);

  // | tf.group(y, z)
  Operation both = Group(root, {y, z});

  // | a.name, a.dtype, a.op.type
  std::string of_a = StrCat(a.name(), " ", Name(a.dtype()), " ", a.node()->op().name);

  // | a.get_shape()
  PartialTensorShape shape = a.shape();

  // | x.set_shape([10, 3])
  root.SetShape(x, {10, 3});

  BOOST_REQUIRE_MESSAGE(root.ok(), root.status());
  BOOST_TEST(of_a == "a:0 float32 Const");
  BOOST_TEST(shape.DebugString() == "[2,2]");
  BOOST_TEST(x.shape().DebugString() == "[10,3]");
  BOOST_TEST((scalar.shape().rank() == 0 && any.shape().rank() == -1));
  BOOST_TEST(both.valid());
  BOOST_TEST(Values(root, {b, c, zeros, like, filled}) ==
             "float64 [3] [1 2 3]; float32 [2,3] [0.5 0.5 0.5 0.5 0.5 0.5]; float32 [2,3] [0 0 0 0 0 0]; "
             "float32 [2,2] [0 0 0 0]; float32 [2,3] [1 1 1 1 1 1]; ");
  BOOST_TEST(Values(root, {range, line, maybe, y, z}) ==
             "int32 [5] [0 2 4 6 8]; float32 [5] [0 0.25 0.5 0.75 1]; float32 [] [1]; float32 [2,2] [-1 -2 -3 -4]; "
             "float32 [2,2] [-1 -2 -3 -4]; ");
}

BOOST_AUTO_TEST_CASE(each_row_on_arithmetic_builds_and_runs) {
  const Scope root = Scope::NewRootScope();
  const Output a = Const(root, {{1.0f, 2.0f}, {3.0f, 4.0f}});
  const Output b = Const(root, {{2.0f, 2.0f}, {3.0f, 1.0f}});
  std::vector<Output> all;
  Output y;
  // | -(a + b) * a / b - 1
  y = -(a + b) * a / b - 1;
  all.push_back(y);

  // | tf.logical_or(a < b, tf.equal(a, b))
  y = ops::LogicalOr(root, a < b, ops::Equal(root, a, b));
  all.push_back(y);

  // | a ** 2 + tf.sqrt(a)
  y = ops::Pow(root, a, 2.0f) + ops::Sqrt(root, a);

  // | a % 2
  y = ops::FloorMod(root, a, 2.0f);
  all.push_back(y);

  // | tf.maximum(a, 2.)
  y = ops::Maximum(root, a, 2.0f);

  // | tf.matmul(a, b, transpose_b=True)
  y = ops::MatMul(root, a, b, {.transpose_b = true});
  all.push_back(y);

  // | tf.matmul(p, q)  # of rank 3 and more
  y = ops::BatchMatMul(root, ops::ExpandDims(root, a, 0), ops::ExpandDims(root, b, 0));
  all.push_back(y);

  // | tf.reduce_sum(a)
  y = ops::Sum(root, a);
  all.push_back(y);

  // | tf.reduce_mean(a, axis=[0], keepdims=True)
  y = ops::Mean(root, a, {0}, {.keep_dims = true});
  all.push_back(y);

  // | tf.argmax(a, axis=1)
  y = ops::ArgMax(root, a, 1);
  all.push_back(y);

  // | tf.cast(a, tf.int32)
  y = ops::Cast(root, a, DType::kInt32);
  all.push_back(y);

  // | tf.where(a < b, a, b)
  y = ops::Select(root, a < b, a, b);
  all.push_back(y);

  // | tf.clip_by_value(a, 0., 2.)
  y = train::ClipByValue(root, a, 0.0f, 2.0f);
  all.push_back(y);

  // | values, indices = tf.nn.top_k(a, k=1)
  auto top = ops::TopKV2(root, a, 1);
  all.push_back(top.values);

  // | tf.random_normal([2, 3], seed=7)
  y = ops::RandomStandardNormal(root, {2, 3}, DType::kFloat, {.seed = 7});

  // | tf.random_uniform([2, 3])
  y = ops::RandomUniform(root, {2, 3}, DType::kFloat);

  BOOST_TEST(Values(root, all) ==
             "float32 [2,2] [-2.5 -5 -7 -21]; bool [2,2] [true true true false]; float32 [2,2] [1 0 1 0]; float32 "
             "[2,2] [6 5 14 "
             "13]; float32 [1,2,2] [8 4 18 10]; "
             "float32 [] [10]; float32 [1,2] [2 3]; int64 [2] [1 1]; int32 [2,2] [1 2 3 4]; float32 [2,2] [1 2 3 1]; "
             "float32 [2,2] [1 2 2 2]; float32 [2,1] [2 4]; ");
}

BOOST_AUTO_TEST_CASE(shapes_and_slices) {
  const Scope root = Scope::NewRootScope();
  const Output a = Const(root, {{1.0f, 2.0f}, {3.0f, 4.0f}});
  const Output b = Const(root, {{2.0f, 2.0f}, {3.0f, 1.0f}});
  std::vector<Output> all;
  Output y;
  // | tf.reshape(a, [-1])
  y = ops::Reshape(root, a, {-1});
  all.push_back(y);

  // | tf.shape(a)[0]
  y = ops::GatherV2(root, ops::Shape(root, a), 0, 0);
  all.push_back(y);

  // | tf.transpose(a)
  y = ops::Transpose(root, a, {1, 0});
  all.push_back(y);

  // | tf.concat([a, b], axis=1)
  y = ops::ConcatV2(root, {a, b}, 1);
  all.push_back(y);

  // | tf.stack([a, b])
  y = ops::Pack(root, {a, b});
  all.push_back(y);

  // | first, second = tf.unstack(a)
  OutputList rows = ops::Unpack(root, a, 2);
  all.push_back(rows[1]);

  // | left, right = tf.split(a, 2, axis=1)
  OutputList halves = ops::Split(root, 1, a, 2);
  all.push_back(halves[0]);

  // | a[0:1, :]
  y = ops::Slice(root, a, {0, 0}, {1, -1});
  all.push_back(y);

  // | a[1]
  y = ops::StridedSlice(root, a, {1}, {2}, {1}, {.shrink_axis_mask = 1});
  all.push_back(y);

  // | tf.gather(a, [1, 0])
  y = ops::GatherV2(root, a, {1, 0}, 0);
  all.push_back(y);

  // | tf.expand_dims(a, 0)
  y = ops::ExpandDims(root, a, 0);

  // | tf.squeeze(y, [0])
  y = ops::Squeeze(root, y, {.squeeze_dims = {0}});
  all.push_back(y);

  // | tf.tile(a, [1, 2])
  y = ops::Tile(root, a, {1, 2});

  // | tf.pad(a, [[1, 1], [0, 0]])
  y = ops::Pad(root, a, {{1, 1}, {0, 0}});

  // | tf.one_hot([1, 0], 3)
  y = ops::OneHot(root, {1, 0}, 3, 1.0f, 0.0f);
  all.push_back(y);

  const Output m = Const(root, {true, false});
  // | tf.boolean_mask(a, m)
  y = ops::GatherV2(root, a, ops::Squeeze(root, ops::Where(root, m), {.squeeze_dims = {1}}), 0);
  all.push_back(y);

  BOOST_TEST(Values(root, all) ==
             "float32 [4] [1 2 3 4]; int32 [] [2]; float32 [2,2] [1 3 2 4]; float32 [2,4] [1 2 2 2 3 4 3 1]; "
             "float32 [2,2,2] [1 2 3 4 2 2 3 1]; float32 [2] [3 4]; float32 [2,1] [1 3]; float32 [1,2] [1 2]; "
             "float32 [2] [3 4]; float32 [2,2] [3 4 1 2]; float32 [2,2] [1 2 3 4]; float32 [2,3] [0 1 0 1 0 0]; "
             "float32 [1,2] [1 2]; ");
}

BOOST_AUTO_TEST_CASE(layers_and_losses) {
  const Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat, {.shape = {-1, 8, 8, 1}});
  const Output labels = ops::Placeholder(root.WithOpName("labels"), DType::kInt32, {.shape = {-1}});
  const Output training = ops::Placeholder(root.WithOpName("training"), DType::kBool, {.shape = TensorShape()});
  // | tf.layers.conv2d(x, 4, [3, 3], padding="same", activation=tf.nn.relu)
  Output h = layers::Conv2D(root, x, 4, {3, 3}, {{.activation = "Relu"}, {1, 1}, {1, 1}, "SAME"});

  // | tf.layers.max_pooling2d(h, 2, 2)
  h = layers::MaxPool2D(root, h, {2, 2}, {2, 2});

  // | tf.layers.flatten(h)
  h = layers::Flatten(root, h);

  // | tf.layers.dense(h, 16, tf.nn.tanh, name="fc")
  h = layers::Dense(root.WithOpName("fc"), h, 16, {.activation = "Tanh"});

  // | tf.layers.dropout(h, 0.5, training=training)
  h = layers::Dropout(root, h, 0.5, training);

  // | tf.layers.dense(h, 10, kernel_initializer=tf.initializers.he_normal(1))
  Output logits = layers::Dense(root, h, 10, {.kernel_initializer = init::HeNormal(1)});

  // | tf.nn.softmax(logits)
  Output p = ops::Softmax(root, logits);

  // | tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
  Output losses = ops::SparseSoftmaxCrossEntropyWithLogits(root, logits, labels).loss;

  const Output wanted = ops::OneHot(root, labels, 10, 1.0f, 0.0f), v = logits, z = wanted;
  // | tf.nn.softmax_cross_entropy_with_logits(labels=wanted, logits=logits)
  losses = ops::SoftmaxCrossEntropyWithLogits(root, logits, wanted).loss;

  // | tf.nn.sigmoid_cross_entropy_with_logits(labels=z, logits=v)
  losses = ops::Maximum(root, v, 0.0f) - v * z + ops::Log1p(root, ops::Exp(root, -ops::Abs(root, v)));

  const Output kernel = Const(root, 0.1f, TensorShape({3, 3, 1, 4})), bias = Const(root, 0.0f, TensorShape({4}));
  // | tf.nn.conv2d(x, kernel, strides=[1, 1, 1, 1], padding="SAME")
  h = ops::Conv2D(root, x, kernel, {1, 1, 1, 1}, "SAME");

  // | tf.nn.bias_add(h, bias)
  h = ops::BiasAdd(root, h, bias);

  const Variable table(root.WithOpName("table"), init::RandomNormal()(root, {100, 16}, DType::kFloat));
  // | tf.nn.embedding_lookup(table, labels)
  Output rows = train::EmbeddingLookup(root, table, labels);

  const Operation init = GlobalVariablesInitializer(root);
  std::unique_ptr<Session> session = SessionOf(root);
  absl::Status s = session->Run({}, {}, {init}, nullptr);
  std::vector<Tensor> out;
  Tensor image(DType::kFloat, {2, 8, 8, 1});
  for (float& pixel : image.flat<float>()) pixel = 0.5f;
  if (s.ok()) {
    s = session->Run({{x, image}, {labels, Tensor::Vector<int32_t>({3, 4})}, {training, Tensor::Scalar(false)}},
                     {p, losses, h, rows}, {}, &out);
  }
  BOOST_REQUIRE_MESSAGE(s.ok(), s);
  BOOST_TEST(out[0].TypeAndShape() == "float32 [2,10]");
  BOOST_TEST(out[1].TypeAndShape() == "float32 [2,10]");
  BOOST_TEST(out[2].TypeAndShape() == "float32 [2,8,8,4]");
  BOOST_TEST(out[3].TypeAndShape() == "float32 [2,16]");
}

BOOST_AUTO_TEST_CASE(variables_and_training) {
  const Scope root = Scope::NewRootScope();
  // | tf.Variable(tf.zeros([2, 1]), name="w")
  Variable w(root.WithOpName("w"), Const(root, 0.0f, TensorShape({2, 1})));

  // | tf.get_variable("u", [2, 1], initializer=tf.glorot_uniform_initializer())
  Variable u(root.WithOpName("u"), init::GlorotUniform()(root, {2, 1}, DType::kFloat));

  // | tf.Variable(0, trainable=False, use_resource=False)
  Variable count(root.WithOpName("count"), 0, {.trainable = false, .use_resource = false});

  // | w.assign([[1.], [2.]])
  Output assigned = w.Assign(root, {{1.0f}, {2.0f}});

  // | w.assign_add([[1.], [2.]])
  Output added = w.AssignAdd(root, {{1.0f}, {2.0f}});

  // | tf.assign_add(count, 1)
  Output counted = count.AssignAdd(root, 1);

  const Output x = Const(root, {{1.0f, 2.0f}}), target = Const(root, {{4.0f}});
  // | loss = tf.reduce_mean(tf.square(tf.matmul(x, w) - target))
  Output loss = ops::Mean(root, ops::Square(root, ops::MatMul(root, x, w) - target));

  // | tf.gradients(loss, [w, x])
  std::vector<Output> d = Gradients(root, {loss}, {w, x});

  // | tf.stop_gradient(x)
  Output fixed = ops::StopGradient(root, x);

  // | global_step = tf.train.get_or_create_global_step()
  Variable global_step = train::GetOrCreateGlobalStep(root);

  // | rate = tf.train.exponential_decay(0.1, global_step, 1000, 0.9)
  Output rate = train::ExponentialDecay(root, 0.1f, global_step, 1000, 0.9);

  // | train_op = tf.train.GradientDescentOptimizer(rate).minimize(loss, global_step)
  Operation train_op = train::GradientDescent(rate).Minimize(root, loss, {}, global_step);

  // | tf.train.MomentumOptimizer(0.01, 0.9).minimize(loss, var_list=[w])
  Operation momentum = train::Momentum(0.01f, 0.9f).Minimize(root, loss, {w});

  // | tf.train.AdagradOptimizer(0.1).minimize(loss)
  Operation adagrad = train::Adagrad(0.1f).Minimize(root, loss);

  // | tf.train.RMSPropOptimizer(0.001, momentum=0.9).minimize(loss)
  Operation rms_prop = train::RMSProp(0.001f, 0.9, 0.9f).Minimize(root, loss);

  // | tf.train.FtrlOptimizer(0.1, l1_regularization_strength=0.01).minimize(loss)
  Operation ftrl = train::Ftrl(0.1f, {.l1 = 0.01}).Minimize(root, loss);

  // | averages = tf.train.ExponentialMovingAverage(0.999)
  train::ExponentialMovingAverage averages(0.999);

  // | averages.apply([w])
  Operation averaged = averages.Apply(root, {w});

  // | optimizer = tf.train.AdamOptimizer(0.001)
  train::Adam optimizer(0.001f);

  // | grads = optimizer.compute_gradients(loss)
  std::vector<train::GradAndVar> grads = optimizer.ComputeGradients(root, loss);

  // | tf.clip_by_global_norm(grads, 5.)
  grads = train::ClipByGlobalNorm(root, grads, 5.0f);

  // | optimizer.apply_gradients(grads)
  Operation applied = optimizer.ApplyGradients(root, grads);

  // | tf.trainable_variables()
  std::vector<Variable> trainable = VariablesIn(root, kTrainableVariables);

  // | init = tf.global_variables_initializer()
  Operation init = GlobalVariablesInitializer(root);

  // | tf.report_uninitialized_variables()
  Output missing = ReportUninitializedVariables(root);

  // | sess = tf.Session()
  std::unique_ptr<Session> sess = *Session::Create();
  // the session takes the graph
  absl::Status s = sess->Extend(*root.graph());
  BOOST_REQUIRE_MESSAGE((root.ok() && s.ok()), root.status() << s);
  std::vector<Tensor> out;

  // | sess.run(init)
  s = sess->Run({}, {}, {init}, nullptr);

  // | sess.run([train_op, loss])
  s = sess->Run({}, {loss}, {train_op}, &out);
  BOOST_REQUIRE_MESSAGE(s.ok(), s);
  BOOST_TEST(out[0].scalar<float>() == 16);

  // | w.eval(sess)
  Tensor value = *sess->Get(w);
  BOOST_TEST(value.DebugString() == "float32 [2,1] [0.8 1.6]");

  // | w.load(value, sess)
  s = sess->Set(w, value);
  BOOST_REQUIRE_MESSAGE(s.ok(), s);
  BOOST_TEST(trainable.size() == 2);
  s = sess->Run({}, {missing, d[0], fixed, assigned}, {counted, momentum, applied}, &out);
  BOOST_REQUIRE_MESSAGE(s.ok(), s);
  BOOST_TEST(out[0].DebugString() == "string [0] []");
  s = sess->Run({}, {added}, {}, &out);
  BOOST_REQUIRE_MESSAGE(s.ok(), s);
}

BOOST_AUTO_TEST_CASE(running_steps) {
  const Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat, {.shape = {-1}});
  const Output y = ops::Square(root.WithOpName("y"), x);
  const Output t = ops::Sum(root, y);
  std::unique_ptr<Session> sess = SessionOf(root);
  absl::Status s;
  std::vector<Tensor> out;
  // | sess.run([y, t], {x: [1., 2.]})
  s = sess->Run({{x, Tensor::Vector<float>({1, 2})}}, {y, t}, {}, &out);
  BOOST_REQUIRE_MESSAGE(s.ok(), s);
  BOOST_TEST(out[1].scalar<float>() == 5);

  // | sess.run("y:0", {"x:0": [1., 2.]})
  s = sess->Run({{"x", Tensor::Vector<float>({1, 2})}}, {"y"}, {}, &out);
  BOOST_REQUIRE_MESSAGE(s.ok(), s);

  // | step = sess.make_callable([y], [x])
  Callable step = *sess->Prepare({x}, {y}, {});

  // | step([1., 2.])
  s = step.Run({Tensor::Vector<float>({1, 2})}, &out);
  BOOST_REQUIRE_MESSAGE(s.ok(), s);

  // | h = sess.partial_run_setup([y, t], [x])
  std::string h = *sess->PartialRunSetup({x}, {y, t}, {});

  // | sess.partial_run(h, y, {x: [1., 2.]})
  s = sess->PartialRun(h, {{x, Tensor::Vector<float>({1, 2})}}, {y}, &out);
  BOOST_REQUIRE_MESSAGE(s.ok(), s);

  // | tf.RunOptions(timeout_in_ms=500)
  RunOptions options;
  options.timeout_ms = 500;
  s = sess->Run(options, {{x, Tensor::Vector<float>({1, 2})}}, {y}, {}, &out, nullptr);
  BOOST_REQUIRE_MESSAGE(s.ok(), s);

  // | tf.ConfigProto(device_count={"CPU": 2}, intra_op_parallelism_threads=4)
  SessionOptions config;
  config.runtime_options = {.threads = 4, .cpu_devices = 2};
  BOOST_TEST(Session::Create(config).ok());

  // | graph_def = g.as_graph_def()
  proto::GraphDef graph_def;
  s = root.ToGraphDef(&graph_def);
  BOOST_REQUIRE_MESSAGE(s.ok(), s);

  // | tf.import_graph_def(graph_def, name="copy")
  s = ImportGraphDef(graph_def, {.prefix = "copy"}, root.graph()).status();
  BOOST_REQUIRE_MESSAGE(s.ok(), s);

  // | g.get_tensor_by_name("copy/y:0")
  Output copy({root.graph()->Find("copy/y"), 0});
  BOOST_TEST(copy.name() == "copy/y:0");

  // | sess.close()
  s = sess->Close();
  BOOST_REQUIRE_MESSAGE(s.ok(), s);
}

BOOST_AUTO_TEST_CASE(conditionals_loops_and_arrays) {
  const Scope root = Scope::NewRootScope();
  const Output x = Const(root, 3.0f);
  const Output v = Const(root, {{1.0f, 2.0f}, {3.0f, 4.0f}});
  // | tf.cond(x > 0, lambda: tf.sqrt(x), lambda: -x)
  Output y = Cond(
      root, x > 0, [&](const Scope& s) { return ops::Sqrt(s, x); }, [&](const Scope& s) { return -x; });

  // | tf.while_loop(lambda i, p: i < 3, lambda i, p: [i + 1, p * x], [0, 1.])
  OutputList loop = While(
      root, {0, 1.0f}, [](const Scope& s, const OutputList& l) { return l[0] < 3; },
      [&](const Scope& s, const OutputList& l) -> OutputList {
        return {l[0] + 1, l[1] * x};
      });

  // | tf.map_fn(lambda row: row * x, v)
  Output mapped = Map(root, v, [&](const Scope& s, const Output& row) { return row * x; });

  // | tf.foldl(lambda a, row: a + row, v, [0., 0.])
  Output sum = Fold(root, v, {0.0f, 0.0f}, [](const Scope& s, const Output& a, const Output& row) { return a + row; });

  // | tf.scan(lambda a, row: a + row, v, [0., 0.])
  Output sums = Scan(root, v, {0.0f, 0.0f}, [](const Scope& s, const Output& a, const Output& row) { return a + row; });

  // | ta = tf.TensorArray(tf.float32, 2).unstack(v)
  auto ta = ops::TensorArrayV3(root, 2, DType::kFloat);
  Output flow = ops::TensorArrayScatterV3(root, ta.handle, {0, 1}, v, ta.flow);

  // | ta.read(1)
  Output one = ops::TensorArrayReadV3(root, ta.handle, 1, flow, DType::kFloat);

  // | tf.Assert(x > 0, [x])
  Operation check = ops::Assert(root, x > 0, {x});

  // | tf.check_numerics(x, "x is bad")
  Output checked = ops::CheckNumerics(root, x, "x is bad");

  // | tf.Print(x, [x], "x = ")
  Output printed = ops::Print(root, x, {x}, {.message = "x = "});

  BOOST_TEST((check.valid() && printed.valid()));
  BOOST_TEST(Values(root, {loop[1], mapped, sum, sums, one, checked}) ==
             "float32 [] [27]; float32 [2,2] [3 6 9 12]; float32 [2] [4 6]; float32 [2,2] [1 2 4 6]; "
             "float32 [2] [3 4]; float32 [] [3]; ");
  BOOST_TEST(y.valid());
}

}  // namespace
}  // namespace troupe
