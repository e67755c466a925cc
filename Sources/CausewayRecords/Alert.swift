/// An alert of a start, an update or an end: it rings and lights up the screen.
public struct Alert: Codable, Hashable, Sendable {
    /// A text, or the key of a text in the app.
    public enum Text: Hashable, Sendable {
        case plain(String)
        /// A key in the app's strings, and what replaces its placeholders.
        case localized(key: String, arguments: [String] = [])
    }

    public var title: Text?
    public var body: Text?
    /// `default`, or the name of a sound file in the app.
    public var sound: String?

    public init(title: Text, body: Text, sound: String? = nil) {
        self.title = title
        self.body = body
        self.sound = sound
    }
}

extension Alert.Text: ExpressibleByStringInterpolation {
    public init(stringLiteral value: String) { self = .plain(value) }
}

extension Alert.Text: Codable {
    private enum CodingKeys: String, CodingKey {
        case key = "loc-key"
        case arguments = "loc-args"
    }

    public init(from decoder: any Decoder) throws {
        if let text = try? decoder.singleValueContainer().decode(String.self) {
            self = .plain(text)
            return
        }
        let container = try decoder.container(keyedBy: CodingKeys.self)
        self = .localized(
            key: try container.decode(String.self, forKey: .key),
            arguments: try container.decodeIfPresent([String].self, forKey: .arguments) ?? []
        )
    }

    public func encode(to encoder: any Encoder) throws {
        switch self {
        case .plain(let text):
            var container = encoder.singleValueContainer()
            try container.encode(text)
        case .localized(let key, let arguments):
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encode(key, forKey: .key)
            if !arguments.isEmpty { try container.encode(arguments, forKey: .arguments) }
        }
    }
}
