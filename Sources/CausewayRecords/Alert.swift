/// An alert of a start, an update or an end: it rings and lights up the screen.
public struct Alert: Hashable, Sendable {
    /// A text, or the key of a text in the app.
    public enum Text: Hashable, Sendable {
        /// The text itself.
        case plain(String)
        /// A key in the app's strings, and the texts that replace its placeholders.
        case localized(key: String, arguments: [String] = [])
    }

    /// The title of the alert.
    public var title: Text?
    /// The text below the title.
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
