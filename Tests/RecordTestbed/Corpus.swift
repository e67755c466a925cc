import Foundation
import Testbed
import Testing

/// Records in files: examples, and records that were once read wrongly. A file's name is the expected result
/// ("accepted" or the fault's code), a dash and the file's subject.
package enum Corpus {
    package struct Entry: CustomTestStringConvertible, Sendable {
        package var name: String
        package var bytes: [UInt8]

        /// The code of the expected fault; nil if the record must be accepted.
        package var expectedFaultCode: String? {
            let word = name.prefix { $0 != "-" && $0 != "." }
            return word == "accepted" ? nil : String(word)
        }

        package var testDescription: String { name }
    }

    package static let commands = readEntries(folder: "Commands")
    package static let registrations = readEntries(folder: "Registrations")

    private static func readEntries(folder: String) -> [Entry] {
        let directory = Repository.url("Tests/LiveActivityTests/Corpus/\(folder)")
        let names = (try? FileManager.default.contentsOfDirectory(atPath: directory.path)) ?? []
        return names.sorted()
            .map { name in
                let content = try? Data(contentsOf: directory.appendingPathComponent(name))
                return Entry(name: name, bytes: content.map { Array($0) } ?? [])
            }
    }
}
