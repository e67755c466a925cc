import Foundation
import LiveActivity
import Testbed
import Testing

/// Records in files: examples, and records that were once read wrongly. A file's name is the expected result, "accepted" or the code of the
/// fault, then a dash and what the file shows.
enum Corpus {
    struct Entry: CustomTestStringConvertible, Sendable {
        var name: String
        var bytes: [UInt8]

        /// Nil if it must be accepted.
        var code: String? {
            let word = name.prefix { $0 != "-" && $0 != "." }
            return word == "accepted" ? nil : String(word)
        }

        var testDescription: String { name }
    }

    static let commands = entries("Commands")
    static let registrations = entries("Registrations")

    private static func entries(_ folder: String) -> [Entry] {
        let directory = Repository.url("Tests/LiveActivityTests/Corpus/\(folder)")
        let names = (try? FileManager.default.contentsOfDirectory(atPath: directory.path)) ?? []
        return names.sorted()
            .map { name in
                let content = try? Data(contentsOf: directory.appendingPathComponent(name))
                return Entry(name: name, bytes: content.map { Array($0) } ?? [])
            }
    }
}

@Suite("Corpus")
struct CorpusTests {
    @Test func `The corpus exists`() {
        #expect(Corpus.commands.count >= 20)
        #expect(Corpus.registrations.count >= 4)
    }

    @Test(arguments: Corpus.commands)
    func `Each command of the corpus has the expected result`(_ entry: Corpus.Entry) {
        let record = Record(entry.bytes)
        do throws(Fault) {
            _ = try record.command()
            #expect(entry.code == nil)
        } catch {
            #expect(entry.code == error.code.name.description)
        }
    }

    @Test(arguments: Corpus.registrations)
    func `Each registration of the corpus has the expected result`(_ entry: Corpus.Entry) {
        let record = Record(entry.bytes)
        do throws(Fault) {
            _ = try record.registration()
            #expect(entry.code == nil)
        } catch {
            #expect(entry.code == error.code.name.description)
        }
    }
}
