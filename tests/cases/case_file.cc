#include "tests/cases/case_file.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <stdexcept>

#include "troupe/import_export.h"
#include "troupe/text.h"

namespace troupe::test {
namespace {

// What a file says of the lines that follow.
struct Settings {
  double tolerance = -1;
  int runs = 1;
};

[[noreturn]] void Throw(const std::string& where, const std::string& what) {
  throw std::runtime_error(where.empty() ? what : StrCat(where, ": ", what));
}

std::vector<std::string> FilesOf(const std::string& what) {
  const std::filesystem::path path = std::filesystem::path(TROUPE_SOURCE_DIR) / "tests/cases" / what;
  if (!std::filesystem::is_directory(path)) return {what};
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    if (entry.path().extension() == ".txt") files.push_back(what + "/" + entry.path().filename().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// "@key value": what has no meaning for the reader, as where a file comes from, is for readers.
void Set(const std::string& line, const std::string& where, Settings* settings) {
  const size_t space = line.find(' ');
  const std::string key = line.substr(0, space), value = space == std::string::npos ? "" : line.substr(space + 1);
  if (key == "@tolerance") {
    settings->tolerance = value == "default" ? -1 : std::stod(value);
  } else if (key == "@runs") {
    settings->runs = std::stoi(value);
  } else if (key != "@from") {
    Throw(where, StrCat("there is no ", key));
  }
}

template <class F>
void ForEachLine(const std::string& what, const F& f) {
  for (const std::string& file : FilesOf(what)) {
    std::ifstream in(StrCat(TROUPE_SOURCE_DIR, "/tests/cases/", file));
    if (!in.good()) Throw("", StrCat("there is no tests/cases/", file));
    Settings settings;
    std::string line;
    for (int number = 1; std::getline(in, line); ++number) {
      if (line.empty() || line[0] == '#') continue;
      const std::string where = StrCat(file, ":", number);
      if (line[0] == '@') {
        Set(line, where, &settings);
      } else {
        f(where, line, settings);
      }
    }
  }
}

// Cuts at `separator` outside of strings.
std::vector<std::string> Cut(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (quoted && text[i] == '\\' && i + 1 < text.size()) {
      parts.back() += text[i++];
    } else if (text[i] == '"') {
      quoted = !quoted;
    } else if (text[i] == separator && !quoted) {
      parts.emplace_back();
      continue;
    }
    parts.back() += text[i];
  }
  return parts;
}

std::string Trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(' ');
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

// The string that begins with the quote at *p, which moves behind it.
std::string TakeString(const char** p) {
  std::string s;
  for (++*p; **p != '"'; ++*p) {
    if (**p == '\0') Throw("", "a string has no end");
    if (**p != '\\') {
      s += **p;
    } else if (const char* digits = *p + 1; digits[0] >= '0' && digits[0] <= '3') {
      s += static_cast<char>((digits[0] - '0') * 64 + (digits[1] - '0') * 8 + (digits[2] - '0'));
      *p += 3;
    } else {
      s += *++*p;
    }
  }
  ++*p;
  return s;
}

double TakeReal(const char** p) {
  char* end = nullptr;
  const double v = std::strtod(*p, &end);
  if (end == *p) Throw("", StrCat("'", std::string(*p).substr(0, 20), "' is no number"));
  *p = end;
  return v;
}

template <class T>
T TakeElement(const char** p) {
  if constexpr (kDTypeOf<T> == DType::kComplex64 || kDTypeOf<T> == DType::kComplex128) {
    using Part = typename T::value_type;
    ++*p;  // '('
    const double x = TakeReal(p);
    ++*p;  // ','
    const double y = TakeReal(p);
    ++*p;  // ')'
    return T(static_cast<Part>(x), static_cast<Part>(y));
  } else if constexpr (std::is_integral_v<T>) {
    char* end = nullptr;
    const auto n = static_cast<int64_t>(std::strtoull(*p, &end, 10));
    if (end == *p) Throw("", StrCat("'", std::string(*p).substr(0, 20), "' is no integer"));
    *p = end;
    return static_cast<T>(n);
  } else {
    return static_cast<T>(TakeReal(p));
  }
}

// What stands for {*}: numbers of about 1, none of them twice in a row.
Tensor MadeUp(DType t, const TensorShape& shape) {
  Tensor out(t, shape);
  const bool numeric = VisitNumeric(t, false, [&]<class T>() {
    for (int64_t i = 0; i < out.num_elements(); ++i) {
      if constexpr (std::is_integral_v<T>) {
        out.data<T>()[i] = static_cast<T>(i * 7 % 11);
      } else if constexpr (std::is_convertible_v<double, T> || std::is_constructible_v<T, double>) {
        out.data<T>()[i] = static_cast<T>(static_cast<double>(i * 7919 % 1001) * 1e-3 - 0.5);
      }
    }
    return true;
  });
  if (!numeric) Throw("", "only numbers can be made up");
  return out;
}

AttrValue ParseAttr(const std::string& text) {
  absl::StatusOr<AttrValue> value = ParseAttrText(text);
  if (!value.ok()) Throw("", StrCat(text, ": ", std::string(value.status().message())));
  return *std::move(value);
}

// Empty unless the word is ATTR=VALUE.
std::string AttrName(const std::string& word) {
  const size_t equals = word.find('=');
  if (equals == std::string::npos || equals == 0) return "";
  return word.substr(0, equals);
}

void ParseHead(const std::string& head, Case* c) {
  for (const std::string& word : Cut(Trimmed(head), ' ')) {
    if (c->op.empty()) {
      c->op = word;
    } else if (word[0] == '<') {
      for (const std::string& n : StrSplit(word.substr(1, word.size() - 2), ',')) c->list_sizes.push_back(std::stoi(n));
    } else if (const std::string name = AttrName(word); !name.empty()) {
      c->attrs.Set(name, ParseAttr(word.substr(name.size() + 1)));
    } else {
      Throw("", StrCat("'", word, "' is neither <sizes> nor an attr"));
    }
  }
}

}  // namespace

Tensor ParseTensor(const std::string& text) {
  const size_t open = text.find('['), close = text.find(']'), brace = text.find('{');
  if (open == std::string::npos || close == std::string::npos || brace != close + 1 || text.back() != '}')
    Throw("", StrCat("'", text.substr(0, 40), "' is no tensor"));
  const DType t = DTypeFromName(text.substr(0, open));
  TensorShape shape;
  for (const std::string& d : StrSplit(text.substr(open + 1, close - open - 1), ',')) {
    if (!d.empty()) shape.AddDim(std::atoll(d.c_str()));
  }
  if (text.compare(brace, 3, "{*}") == 0) return MadeUp(t, shape);
  Tensor out(t, shape);
  const char* p = text.c_str() + brace + 1;
  for (int64_t i = 0; i < out.num_elements(); ++i) {
    while (*p == ' ') ++p;
    if (t == DType::kString) {
      if (*p != '"') Throw("", StrCat("'", text.substr(0, 40), "' has too few strings"));
      out.data<std::string>()[i] = TakeString(&p);
    } else if (!VisitNumeric(t, false, [&]<class T>() {
                 out.data<T>()[i] = TakeElement<T>(&p);
                 return true;
               })) {
      Throw("", StrCat("tensors of ", text.substr(0, open), " have no text"));
    }
  }
  while (*p == ' ') ++p;
  if (*p != '}') Throw("", StrCat("'", text.substr(0, 40), "...' has more elements than its shape"));
  return out;
}

Case ParseCase(const std::string& text, const std::string& where) {
  Case c;
  c.where = where;
  c.text = text;
  try {
    const std::vector<std::string> parts = Cut(text, '|');
    ParseHead(parts[0], &c);
    std::vector<Tensor>* const sides[] = {nullptr, &c.inputs, &c.outputs, &c.grads};
    if (parts.size() > std::size(sides)) Throw("", "there are too many parts");
    for (size_t side = 1; side < parts.size(); ++side) {
      for (const std::string& piece : Cut(parts[side], ';')) {
        const std::string word = Trimmed(piece);
        if (word.empty()) continue;
        if (word[0] == '"') {
          const char* p = word.c_str();
          c.error = TakeString(&p);
        } else if (word == "none") {
          sides[side]->emplace_back();
        } else {
          sides[side]->push_back(ParseTensor(word));
        }
      }
    }
  } catch (const std::exception& e) {
    Throw(where, e.what());
  }
  return c;
}

proto::NodeDef ParseNode(const std::string& text) {
  proto::NodeDef node;
  for (const std::string& word : Cut(text, ' ')) {
    if (node.name().empty()) {
      node.set_name(word);
    } else if (node.op().empty()) {
      node.set_op(word);
    } else if (word[0] == '@') {
      node.set_device(word.substr(1));
    } else if (const std::string name = AttrName(word); !name.empty()) {
      AttrToProto(ParseAttr(word.substr(name.size() + 1)), &(*node.mutable_attr())[name]);
    } else {
      node.add_input(word);
    }
  }
  return node;
}

std::vector<CaseLine> ReadLines(const std::string& what) {
  std::vector<CaseLine> lines;
  ForEachLine(what, [&](const std::string& where, const std::string& line, const Settings&) {
    lines.push_back({where, line});
  });
  return lines;
}

std::vector<Case> ReadCases(const std::string& what) {
  std::vector<Case> cases;
  ForEachLine(what, [&](const std::string& where, const std::string& line, const Settings& settings) {
    Case c = ParseCase(line, where);
    c.tolerance = settings.tolerance;
    c.runs = settings.runs;
    cases.push_back(std::move(c));
  });
  return cases;
}

std::vector<std::string> ReadOps(const std::string& what) {
  std::set<std::string> ops;
  ForEachLine(what, [&](const std::string&, const std::string& line, const Settings&) {
    ops.insert(line.substr(0, line.find(' ')));
  });
  return {ops.begin(), ops.end()};
}

}  // namespace troupe::test
