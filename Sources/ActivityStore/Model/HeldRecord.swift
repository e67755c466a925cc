/// Reads the records of held commands, in the model of the scripts.
enum HeldRecord {
    /// Returns the number in a JSON field of a held command's record; nil if the record has no number in this field.
    /// Only the fields before `aps` are searched: Causeway writes its own fields there (`CommandRecord`), and behind
    /// `aps` a producer may use the same names.
    static func number(_ name: String, in record: [UInt8]) -> Int64? {
        let apsKey = record.firstRange(of: Array(#""aps":"#.utf8))
        let members = apsKey.map { record[..<$0.lowerBound] } ?? record[...]
        guard let key = members.firstRange(of: Array("\"\(name)\":".utf8)) else { return nil }
        let digits = members[key.upperBound...].prefix { UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 }
        return Int64(String(decoding: digits, as: UTF8.self))
    }
}
