import Foundation

/// Any JSON value, as Foundation's decoder reads it.
package enum FoundationValue: Decodable, Equatable {
    case null
    case boolean(Bool)
    /// A number. `unsigned` is its value if it is a whole number from 0 to `UInt64.max`, otherwise nil.
    case number(unsigned: UInt64?)
    case string(String)
    case array([FoundationValue])
    case object([String: FoundationValue])

    private struct Key: CodingKey {
        var stringValue: String
        var intValue: Int? { nil }
        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }

    package init(from decoder: any Decoder) throws {
        if let container = try? decoder.container(keyedBy: Key.self) {
            let members = try container.allKeys.map {
                ($0.stringValue, try container.decode(FoundationValue.self, forKey: $0))
            }
            self = .object(Dictionary(members) { $1 })
            return
        }
        if var container = try? decoder.unkeyedContainer() {
            var elements: [FoundationValue] = []
            while !container.isAtEnd { elements.append(try container.decode(FoundationValue.self)) }
            self = .array(elements)
            return
        }
        let container = try decoder.singleValueContainer()
        if container.decodeNil() {
            self = .null
        } else if let value = try? container.decode(Bool.self) {
            self = .boolean(value)
        } else if (try? container.decode(Double.self)) != nil {
            self = .number(unsigned: try? container.decode(UInt64.self))
        } else {
            self = .string(try container.decode(String.self))
        }
    }

    package init?(_ text: some Collection<UInt8>) {
        guard let value = try? JSONDecoder().decode(FoundationValue.self, from: Data(text)) else { return nil }
        self = value
    }

    package var string: String? {
        if case .string(let text) = self { text } else { nil }
    }

    package var object: [String: FoundationValue]? {
        if case .object(let members) = self { members } else { nil }
    }

    package var isNumber: Bool {
        if case .number = self { true } else { false }
    }

    package var isBoolean: Bool {
        if case .boolean = self { true } else { false }
    }

    package var unsigned: UInt64? {
        if case .number(let unsigned) = self { unsigned } else { nil }
    }
}
