import Foundation
import Numbers
import Testbed

/// A JSON value whose objects keep their keys in order, so that a mutation can repeat a key.
indirect enum JSONTree {
    case literal(String)
    case array([JSONTree])
    case object([(key: String, value: JSONTree)])

    init(_ value: Any) {
        switch value {
        case let object as [String: Any]:
            self = .object(object.sorted { $0.key < $1.key }.map { ($0.key, JSONTree($0.value)) })
        case let array as [Any]: self = .array(array.map(JSONTree.init))
        default:
            let data = try? JSONSerialization.data(withJSONObject: value, options: .fragmentsAllowed)
            self = .literal(String(decoding: data ?? Data("null".utf8), as: UTF8.self))
        }
    }

    var text: String {
        switch self {
        case .literal(let text): text
        case .array(let elements): "[" + elements.map(\.text).joined(separator: " ,") + "]"
        case .object(let members): "{ " + members.map { "\"\($0.key)\": \($0.value.text)" }.joined(separator: ",") + "}"
        }
    }

    static let literals = [
        "null", "true", "false", "0", "-0", "3", "3.0", "1.5", "-7", "-8", "30e-1", "1e3", "1e18", "1e19", "1e400",
        "127", "128", "-128", "-129", "65535", "65536", "2147483647", "2147483648", "4294967296", "1e39", "1e-60",
        "9223372036854775807", "9223372036854775808", "-9223372036854775808", "18446744073709551615", "0.1e1",
        "18446744073709551616", "123456789012345678901234567890", "9007199254740993",
        "1.0000", "1E+2", "-1e0", #""""#, #""x""#, #""3""#, #""arrived""#, #""Arrived""#, #""arr\u0069ved""#, #""fog""#,
        #""\ud83d\ude00""#, #""2026-01-01T00:00:00Z""#, "[]", "[1]", "[1,2]", "[2,1]", "[1,2,3]", "[1,null]", "{}",
        #""AAEC""#, #""AA==""#, #""AA=""#, #""A\/+=""#, #""A===""#, #""AAEC AAEC""#, #""=AAA""#,
        #""0b7a3c50-7d2e-4c11-9b5a-6f1d2e3c4b5a""#, #""0b7a3c507d2e4c119b5a6f1d2e3c4b5a""#,
        #""0b7a3c50-7d2e-4c11-9b5a-6f1d2e3c4b5g""#, #"{"latitude":1,"names":[]}"#, #"{"latitude":"1","names":[]}"#,
        #"{"lower":1}"#, #"{"p":{"latitude":1,"names":["x"]},"t":5}"#, #"{"p":{"latitude":1}}"#, #"{"none":{}}"#,
    ]

    /// Returns the tree with one random change.
    func mutated(_ random: inout SplitMix64) -> JSONTree {
        switch self {
        case .array(var elements) where !elements.isEmpty && random.chance(700):
            let index = random.below(elements.count)
            if random.chance(150) {
                elements.remove(at: index)
            } else {
                elements[index] = elements[index].mutated(&random)
            }
            return .array(elements)
        case .object(var members) where !members.isEmpty && random.chance(950):
            let index = random.below(members.count)
            switch random.below(10) {
            case 0: members.remove(at: index)
            case 1: members.append(("unknown", .literal(random.pick(Self.literals))))
            // Repeats a key with another value at a random place. A reader uses the first value of a repeated
            // key.
            case 2:
                members.insert(
                    (members[index].key, .literal(random.pick(Self.literals))),
                    at: random.below(members.count)
                )
            case 3: members.shuffle(using: &random)
            default: members[index].value = members[index].value.mutated(&random)
            }
            return .object(members)
        default: return .literal(random.pick(Self.literals))
        }
    }
}
