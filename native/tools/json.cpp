#include "json.h"

#include <cctype>
#include <cstdlib>
#include <cstring>

#include "arguments.h"
#include "npy.h"

namespace tool {
namespace {

constexpr int kMaxDepth = 64;

class Parser {
 public:
  Parser(const std::string& path, const std::string& text) : path_(path), text_(text) {}

  Json parse() {
    Json value = parse_value(0);
    if (peek() != '\0' || at_ != text_.size()) fail("text after the end");
    return value;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw FileError(path_ + ": damaged JSON at byte " + std::to_string(at_) + ": " + what);
  }

  char peek() {
    while (at_ < text_.size() && std::strchr(" \t\r\n", text_[at_]) != nullptr && text_[at_] != '\0') ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool accept(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(std::string("expected '") + c + "'");
  }
  void literal(const char* word) {
    if (text_.compare(at_, std::strlen(word), word) != 0) fail("unknown word");
    at_ += std::strlen(word);
  }

  Json parse_value(int depth) {
    if (depth > kMaxDepth) fail("nested too deeply");
    Json value;
    switch (peek()) {
      case '{':
        return parse_object(depth);
      case '[':
        return parse_array(depth);
      case '"':
        value.kind = Json::Kind::string;
        value.string = parse_string();
        return value;
      case 't':
        literal("true");
        value.kind = Json::Kind::boolean;
        value.boolean = true;
        return value;
      case 'f':
        literal("false");
        value.kind = Json::Kind::boolean;
        return value;
      case 'n':
        literal("null");
        return value;
      default:
        value.kind = Json::Kind::number;
        value.number = parse_number();
        return value;
    }
  }

  Json parse_object(int depth) {
    Json value;
    value.kind = Json::Kind::object;
    expect('{');
    if (accept('}')) return value;
    do {
      if (peek() != '"') fail("expected a key");
      const std::string key = parse_string();
      expect(':');
      if (!value.object.emplace(key, parse_value(depth + 1)).second) fail("key '" + key + "' occurs twice");
    } while (accept(','));
    expect('}');
    return value;
  }

  Json parse_array(int depth) {
    Json value;
    value.kind = Json::Kind::array;
    expect('[');
    if (accept(']')) return value;
    do {
      value.array.push_back(parse_value(depth + 1));
    } while (accept(','));
    expect(']');
    return value;
  }

  double parse_number() {
    const size_t end = text_.find_first_not_of("+-0123456789.eE", at_);
    const std::string digits = text_.substr(at_, end - at_);
    char* stop = nullptr;
    const double number = std::strtod(digits.c_str(), &stop);
    if (digits.empty() || stop != digits.c_str() + digits.size()) fail("expected a value");
    at_ += digits.size();
    return number;
  }

  unsigned parse_hex4() {
    if (at_ + 4 > text_.size()) fail("unfinished string");
    unsigned code = 0;
    for (int i = 0; i < 4; ++i) {
      const char* digits = "0123456789abcdef";
      const char c = static_cast<char>(std::tolower(static_cast<unsigned char>(text_[at_++])));
      const char* found = c != '\0' ? std::strchr(digits, c) : nullptr;
      if (found == nullptr) fail("damaged \\u escape");
      code = code * 16 + static_cast<unsigned>(found - digits);
    }
    return code;
  }

  void append_utf8(std::string& out, unsigned code) {
    if (code < 0x80) {
      out += static_cast<char>(code);
    } else if (code < 0x800) {
      out += static_cast<char>(0xC0 | (code >> 6));
      out += static_cast<char>(0x80 | (code & 0x3F));
    } else if (code < 0x10000) {
      out += static_cast<char>(0xE0 | (code >> 12));
      out += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
      out += static_cast<char>(0x80 | (code & 0x3F));
    } else {
      out += static_cast<char>(0xF0 | (code >> 18));
      out += static_cast<char>(0x80 | ((code >> 12) & 0x3F));
      out += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
      out += static_cast<char>(0x80 | (code & 0x3F));
    }
  }

  std::string parse_string() {
    std::string out;
    ++at_;
    while (true) {
      if (at_ >= text_.size()) fail("unfinished string");
      const char c = text_[at_++];
      if (c == '"') return out;
      if (static_cast<unsigned char>(c) < 0x20) fail("control character in a string");
      if (c != '\\') {
        out += c;
        continue;
      }
      const char escape = at_ < text_.size() ? text_[at_++] : '\0';
      static constexpr char kFrom[] = "\"\\/bfnrt";
      static constexpr char kTo[] = "\"\\/\b\f\n\r\t";
      if (escape == 'u') {
        unsigned code = parse_hex4();
        if (code >= 0xD800 && code < 0xDC00 && text_.compare(at_, 2, "\\u") == 0) {
          at_ += 2;
          code = 0x10000 + ((code - 0xD800) << 10) + (parse_hex4() - 0xDC00);
        }
        append_utf8(out, code);
      } else if (const char* found = escape != '\0' ? std::strchr(kFrom, escape) : nullptr) {
        out += kTo[found - kFrom];
      } else {
        fail("unknown escape");
      }
    }
  }

  const std::string& path_;
  const std::string& text_;
  size_t at_ = 0;
};

}  // namespace

const Json& Json::member(const std::string& path, const std::string& key, Kind wanted) const {
  const auto found = object.find(key);
  if (found == object.end()) throw FileError(path + ": key '" + key + "' is missing");
  if (found->second.kind != wanted) throw FileError(path + ": key '" + key + "' has the wrong type");
  return found->second;
}

const Json* Json::find(const std::string& key) const {
  const auto found = object.find(key);
  return found == object.end() || found->second.kind == Kind::null ? nullptr : &found->second;
}

Json read_json(const std::string& path) {
  const std::vector<uint8_t> bytes = read_file(path);
  const std::string text(bytes.begin(), bytes.end());
  return Parser(path, text).parse();
}

}  // namespace tool
