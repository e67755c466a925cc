extension StringProtocol {
    /// Returns the words of the text in lines of at most `characterCountMax` characters. A longer word has a line of
    /// its own.
    package func wrapped(toCharacters characterCountMax: Int) -> [String] {
        var lines: [String] = []
        for word in split(whereSeparator: \.isWhitespace) {
            if let last = lines.last, last.count + word.count < characterCountMax {
                lines[lines.count - 1] = "\(last) \(word)"
            } else {
                lines.append(String(word))
            }
        }
        return lines
    }
}
