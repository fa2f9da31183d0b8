// libFuzzer's changes to a GraphDef, made on nodes, inputs and attrs instead of bytes, since of
// changed bytes few are a GraphDef at all.
#include <algorithm>
#include <random>
#include <string>

#include "tests/fuzz/random_graph.h"
#include "troupe/strings.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace troupe::fuzz {
namespace {

using Random = std::minstd_rand;

uint32_t Pick(Random& r, size_t n) { return n == 0 ? 0 : static_cast<uint32_t>(r() % n); }

int64_t AnyInt(Random& r) {
  constexpr int64_t kSome[] = {
      0, 1, 2, 3, -1, -2, 255, 65536, 2147483647, -2147483648ll, int64_t{1} << 40, INT64_MAX, INT64_MIN};
  return kSome[Pick(r, std::size(kSome))];
}

void ChangeShape(proto::TensorShapeProto* s, Random& r) {
  switch (Pick(r, 4)) {
    case 0:
      s->add_dim()->set_size(AnyInt(r));
      break;
    case 1:
      if (s->dim_size() > 0) s->mutable_dim()->RemoveLast();
      break;
    case 2:
      if (s->dim_size() > 0) s->mutable_dim(static_cast<int>(Pick(r, s->dim_size())))->set_size(AnyInt(r));
      break;
    default:
      s->set_unknown_rank(!s->unknown_rank());
  }
}

void ChangeTensor(proto::TensorProto* t, Random& r) {
  switch (Pick(r, 6)) {
    case 0:
      t->set_dtype(static_cast<proto::DataType>(Pick(r, 130)));
      break;
    case 1:
      ChangeShape(t->mutable_tensor_shape(), r);
      break;
    case 2:
      t->mutable_tensor_content()->resize(Pick(r, 40));
      break;
    case 3:
      t->add_float_val(1);
      t->add_int_val(static_cast<int>(AnyInt(r)));
      break;
    case 4:
      t->add_int64_val(AnyInt(r));
      t->add_string_val("x");
      t->add_half_val(70000);
      break;
    default:
      t->clear_float_val();
      t->clear_int_val();
      t->clear_tensor_content();
  }
}

void ChangeAttr(proto::AttrValue* a, Random& r) {
  if (a->has_tensor() && Pick(r, 4) != 0) return ChangeTensor(a->mutable_tensor(), r);
  if (a->has_shape() && Pick(r, 4) != 0) return ChangeShape(a->mutable_shape(), r);
  if (a->has_list() && Pick(r, 4) != 0) {
    proto::AttrValue::ListValue* l = a->mutable_list();
    switch (Pick(r, 6)) {
      case 0:
        l->add_i(AnyInt(r));
        break;
      case 1:
        if (l->i_size() > 0) l->set_i(static_cast<int>(Pick(r, l->i_size())), AnyInt(r));
        break;
      case 2:
        if (l->i_size() > 0) l->mutable_i()->RemoveLast();
        break;
      case 3:
        l->add_type(static_cast<proto::DataType>(Pick(r, 130)));
        break;
      case 4:
        if (l->type_size() > 0) l->mutable_type()->RemoveLast();
        break;
      default:
        ChangeShape(l->add_shape(), r);
    }
    return;
  }
  switch (Pick(r, 8)) {
    case 0:
      a->set_i(AnyInt(r));
      break;
    case 1:
      a->set_type(static_cast<proto::DataType>(Pick(r, 130)));
      break;
    case 2:
      a->set_b(Pick(r, 2) == 1);
      break;
    case 3:
      a->set_s(std::string(Pick(r, 5), 'N'));
      break;
    case 4:
      ChangeShape(a->mutable_shape(), r);
      break;
    case 5:
      a->set_placeholder("p");
      break;
    case 6:
      a->mutable_func()->set_name("f");
      break;
    default:
      a->mutable_list();
  }
}

std::string AnyInput(const proto::GraphDef& def, Random& r) {
  const proto::NodeDef& from = def.node(static_cast<int>(Pick(r, def.node_size())));
  switch (Pick(r, 8)) {
    case 0:
      return "^" + from.name();
    case 1:
      return StrCat(from.name(), ":", AnyInt(r));
    case 2:
      return StrCat(from.name(), ":1");
    default:
      return from.name();
  }
}

void Change(proto::GraphDef* def, Random& r) {
  if (def->node_size() == 0) {
    uint8_t seed[300];
    for (uint8_t& b : seed) b = static_cast<uint8_t>(r() >> 8);
    Bytes bytes(seed, sizeof(seed));
    *def = MakeGraph(&bytes, 6).def;
    return;
  }
  const int at = static_cast<int>(Pick(r, def->node_size()));
  proto::NodeDef* n = def->mutable_node(at);
  switch (Pick(r, 12)) {
    case 0: {
      proto::NodeDef copy = *n;
      if (Pick(r, 4) != 0) copy.set_name(StrCat(copy.name(), "_", def->node_size()));
      *def->add_node() = copy;
      break;
    }
    case 1:
      def->mutable_node()->DeleteSubrange(at, 1);
      break;
    case 2: {
      const auto ops = OpRegistry::Global().List();
      n->set_op(ops[Pick(r, ops.size())]->name);
      break;
    }
    case 3:
      if (n->input_size() > 0) n->set_input(static_cast<int>(Pick(r, n->input_size())), AnyInput(*def, r));
      break;
    case 4:
      n->add_input(AnyInput(*def, r));
      break;
    case 5:
      if (n->input_size() > 0) n->mutable_input()->RemoveLast();
      break;
    case 6:
    case 7:
    case 8: {
      if (n->attr().empty()) break;
      auto it = n->mutable_attr()->begin();
      std::advance(it, Pick(r, n->attr().size()));
      if (Pick(r, 8) == 0) {
        n->mutable_attr()->erase(it->first);
      } else {
        ChangeAttr(&it->second, r);
      }
      break;
    }
    case 9: {
      const OpDef* op = OpRegistry::Global().Find(n->op());
      if (op != nullptr && !op->attrs.empty())
        ChangeAttr(&(*n->mutable_attr())[op->attrs[Pick(r, op->attrs.size())].name], r);
      break;
    }
    case 10: {
      constexpr const char* kDevices[] = {"/cpu:0", "/device:GPU:1", "/job:a/task:9", "nowhere", "/job:/task:x"};
      n->set_device(kDevices[Pick(r, std::size(kDevices))]);
      if (Pick(r, 4) == 0) def->mutable_versions()->set_producer(static_cast<int>(AnyInt(r)));
      break;
    }
    default: {
      uint8_t seed[120];
      for (uint8_t& b : seed) b = static_cast<uint8_t>(r() >> 8);
      Bytes bytes(seed, sizeof(seed));
      proto::GraphDef more = MakeGraph(&bytes, 2).def;
      const std::string suffix = StrCat("_", def->node_size());
      for (proto::NodeDef& m : *more.mutable_node()) {
        m.set_name(m.name() + suffix);
        for (std::string& i : *m.mutable_input()) {
          const size_t colon = i.find(':');
          i = colon == std::string::npos ? i + suffix : i.substr(0, colon) + suffix + i.substr(colon);
        }
        *def->add_node() = m;
      }
    }
  }
}

}  // namespace
}  // namespace troupe::fuzz

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  troupe::fuzz::Random random(seed);
  troupe::proto::GraphDef def;
  // Bytes now and then: the wire form has faults of its own.
  if (random() % 16 == 0 || !def.ParseFromArray(data, static_cast<int>(size))) {
    if (random() % 2 == 0) return LLVMFuzzerMutate(data, size, max_size);
    def.Clear();
  }
  for (uint32_t i = 0, n = 1 + random() % 3; i < n; ++i) troupe::fuzz::Change(&def, random);
  std::string out;
  if (!def.SerializeToString(&out) || out.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::copy(out.begin(), out.end(), data);
  return out.size();
}
