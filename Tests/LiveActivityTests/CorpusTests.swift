import LiveActivity
import RecordTestbed
import Testing

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
            #expect(entry.expectedFaultCode == nil)
        } catch {
            #expect(entry.expectedFaultCode == error.code.name.description)
        }
    }

    @Test(arguments: Corpus.registrations)
    func `Each registration of the corpus has the expected result`(_ entry: Corpus.Entry) {
        let record = Record(entry.bytes)
        do throws(Fault) {
            _ = try record.registration()
            #expect(entry.expectedFaultCode == nil)
        } catch {
            #expect(entry.expectedFaultCode == error.code.name.description)
        }
    }
}
