extension StringProtocol {
    /// Returns the words of the text in lines of at most `charactersMax` characters. A longer word is not split: it has
    /// a line of its own.
    package func wrapped(toCharacters charactersMax: Int) -> [String] {
        var lines: [String] = []
        for word in split(whereSeparator: \.isWhitespace) {
            if let last = lines.last, last.count + word.count < charactersMax {
                lines[lines.count - 1] = "\(last) \(word)"
            } else {
                lines.append(String(word))
            }
        }
        return lines
    }
}
